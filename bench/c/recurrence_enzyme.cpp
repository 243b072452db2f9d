// STEPS
void recurrence(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, 1>& w)
{
    double s = 0.3;
    for (long i = 0; i < STEPS; i++)
        s = sin(s * w[0]) + w[0];
    out[0] = s;
}
