/* Cholesky and LU factorisations by plain loops; the logarithm of the determinant, and its adjoint: the loops back.
   a, a_bar, l: n times n.  In the gradients l holds the factors, and a_bar their adjoints while they are needed. */
#include <math.h>
#include <string.h>

double cholesky(long n, const double *restrict a, double *restrict l)
{
    double sum = 0;
    for (long j = 0; j < n; j++) {
        double d = a[j * n + j];
        for (long k = 0; k < j; k++)
            d -= l[j * n + k] * l[j * n + k];
        d = sqrt(d);
        l[j * n + j] = d;
        sum += 2 * log(d);
        for (long i = j + 1; i < n; i++) {
            double s = a[i * n + j];
            for (long k = 0; k < j; k++)
                s -= l[i * n + k] * l[j * n + k];
            l[i * n + j] = s / d;
        }
    }
    return sum;
}

double cholesky_gradient(long n, const double *restrict a, double *restrict a_bar, double *restrict l,
                         double *restrict l_bar)
{
    double sum = cholesky(n, a, l);
    memset(a_bar, 0, n * n * sizeof(double));
    memset(l_bar, 0, n * n * sizeof(double));
    for (long j = n - 1; j >= 0; j--) {
        double d = l[j * n + j], d_bar = l_bar[j * n + j] + 2 / d;
        for (long i = n - 1; i > j; i--) {
            double s_bar = l_bar[i * n + j] / d;
            d_bar -= s_bar * l[i * n + j];
            a_bar[i * n + j] += s_bar;
            for (long k = 0; k < j; k++) {
                l_bar[i * n + k] -= s_bar * l[j * n + k];
                l_bar[j * n + k] -= s_bar * l[i * n + k];
            }
        }
        double q_bar = d_bar / (2 * d);
        a_bar[j * n + j] += q_bar;
        for (long k = 0; k < j; k++)
            l_bar[j * n + k] -= 2 * q_bar * l[j * n + k];
    }
    return sum;
}

double lu(long n, const double *restrict a, double *restrict f)
{
    memcpy(f, a, n * n * sizeof(double));
    double sum = 0;
    for (long k = 0; k < n; k++) {
        sum += log(fabs(f[k * n + k]));
        for (long i = k + 1; i < n; i++) {
            double m = f[i * n + k] / f[k * n + k];
            f[i * n + k] = m;
            for (long j = k + 1; j < n; j++)
                f[i * n + j] -= m * f[k * n + j];
        }
    }
    return sum;
}

double lu_gradient(long n, const double *restrict a, double *restrict a_bar, double *restrict f)
{
    double sum = lu(n, a, f);
    memset(a_bar, 0, n * n * sizeof(double));
    for (long k = n - 1; k >= 0; k--) {
        double p = f[k * n + k], p_bar = 0;
        for (long i = n - 1; i > k; i--) {
            double m = f[i * n + k], m_bar = a_bar[i * n + k], dot = 0;
            for (long j = k + 1; j < n; j++) {
                dot += a_bar[i * n + j] * f[k * n + j];
                a_bar[k * n + j] -= m * a_bar[i * n + j];
            }
            m_bar = (m_bar - dot) / p;
            p_bar -= m_bar * m;
            a_bar[i * n + k] = m_bar;
        }
        a_bar[k * n + k] += p_bar + 1 / p;
    }
    return sum;
}
