// N
void cholesky(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, N * N>& a)
{
    double l[N * N], sum = 0;
    for (long j = 0; j < N; j++) {
        double d = a[j * N + j];
        for (long k = 0; k < j; k++)
            d -= l[j * N + k] * l[j * N + k];
        d = sqrt(d);
        l[j * N + j] = d;
        sum += 2 * log(d);
        for (long i = j + 1; i < N; i++) {
            double s = a[i * N + j];
            for (long k = 0; k < j; k++)
                s -= l[i * N + k] * l[j * N + k];
            l[i * N + j] = s / d;
        }
    }
    out[0] = sum;
}
void lu(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, N * N>& a)
{
    double f[N * N], sum = 0;
    for (long i = 0; i < N * N; i++)
        f[i] = a[i];
    for (long k = 0; k < N; k++) {
        sum += log(fabs(f[k * N + k]));
        for (long i = k + 1; i < N; i++) {
            double m = f[i * N + k] / f[k * N + k];
            f[i * N + k] = m;
            for (long j = k + 1; j < N; j++)
                f[i * N + j] -= m * f[k * N + j];
        }
    }
    out[0] = sum;
}
