// N nodes, packed: the children of a node by number, negative where there is none; as doubles, since the interface that
// Enzyme is called through knows no integers
static double total(const double *left, const double *right, const double *value, long at)
{
    if (at < 0)
        return 1;
    double l = total(left, right, value, (long)left[at]), r = total(left, right, value, (long)right[at]);
    return 1 + value[at] * (l + r) - 0.1 * l * r;
}
void trees(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, N>& value, const enzyme::tensor<double, N>& left,
           const enzyme::tensor<double, N>& right)
{
    out[0] = total(&left[0], &right[0], &value[0], 0);
}
