// N
using options = enzyme::tensor<double, N>;
static inline double normal(double x)
{
    return 0.5 * (1 + erf(x * 0.70710678118654752440));
}
void black_scholes(enzyme::tensor<double, 1>& out, const options& S, const options& K, const options& T, const options& r,
                   const options& v)
{
    double total = 0;
    for (long i = 0; i < N; i++) {
        double w = v[i] * sqrt(T[i]), d1 = (log(S[i] / K[i]) + (r[i] + 0.5 * v[i] * v[i]) * T[i]) / w;
        total += S[i] * normal(d1) - K[i] * exp(-r[i] * T[i]) * normal(d1 - w);
    }
    out[0] = total;
}
