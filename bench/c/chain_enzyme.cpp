// N
void chain(enzyme::tensor<float, 1>& out, const enzyme::tensor<float, N>& x)
{
    double total = 0;
    for (long i = 0; i < N; i++)
        total += expf(sinf(x[i])) * sqrtf(1 + x[i] * x[i]) + tanhf(x[i]);
    out[0] = total;
}
