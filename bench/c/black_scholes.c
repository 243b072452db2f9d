/* European call options: prices, the first derivatives (delta, theta with a plus sign, rho, vega) and gamma, from the
   textbook's closed forms.  g: n times 4. */
#include <math.h>

static inline double normal(double x)
{
    return 0.5 * (1 + erf(x * M_SQRT1_2));
}

double black_scholes(long n, const double *restrict S, const double *restrict K, const double *restrict T,
                     const double *restrict r, const double *restrict v)
{
    double total = 0;
#pragma omp parallel for reduction(+ : total)
    for (long i = 0; i < n; i++) {
        double w = v[i] * sqrt(T[i]), d1 = (log(S[i] / K[i]) + (r[i] + 0.5 * v[i] * v[i]) * T[i]) / w;
        total += S[i] * normal(d1) - K[i] * exp(-r[i] * T[i]) * normal(d1 - w);
    }
    return total;
}

double black_scholes_gradient(long n, const double *restrict S, const double *restrict K, const double *restrict T,
                              const double *restrict r, const double *restrict v, double *restrict S_bar,
                              double *restrict T_bar, double *restrict r_bar, double *restrict v_bar)
{
    double total = 0;
#pragma omp parallel for reduction(+ : total)
    for (long i = 0; i < n; i++) {
        double root = sqrt(T[i]), w = v[i] * root, d1 = (log(S[i] / K[i]) + (r[i] + 0.5 * v[i] * v[i]) * T[i]) / w;
        double N1 = normal(d1), discounted = K[i] * exp(-r[i] * T[i]) * normal(d1 - w);
        double vega = S[i] * root * exp(-0.5 * d1 * d1) * 0.39894228040143267794;
        total += S[i] * N1 - discounted;
        S_bar[i] = N1;
        T_bar[i] = 0.5 * vega * v[i] / T[i] + r[i] * discounted;
        r_bar[i] = T[i] * discounted;
        v_bar[i] = vega;
    }
    return total;
}

double black_scholes_gamma(long n, const double *restrict S, const double *restrict K, const double *restrict T,
                           const double *restrict r, const double *restrict v, double *restrict gamma)
{
    for (long i = 0; i < n; i++) {
        double w = v[i] * sqrt(T[i]), d1 = (log(S[i] / K[i]) + (r[i] + 0.5 * v[i] * v[i]) * T[i]) / w;
        gamma[i] = exp(-0.5 * d1 * d1) * 0.39894228040143267794 / (S[i] * w);
    }
    return 0;
}
