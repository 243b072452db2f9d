/* Linear algebra, loop by loop as in bench/ordinary/linear_algebra.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double matmul(long n, long m, const double *a, long m_, long p, const double *b)
{
    double total = 0;
    for (long i = 0; i < n; i++)
        for (long j = 0; j < p; j++) {
            double s = 0;
            for (long k = 0; k < m; k++)
                s += a[i * m + k] * b[k * p + j];
            total += s * s;
        }
    return total;
}

/* A copy of b with its axes exchanged lets every inner loop run along rows. */
double matmul_gradient(long n, long m, const double *restrict a, long m_, long p, const double *restrict b,
                       double *restrict a_bar, double *restrict b_bar)
{
    double total = 0, *restrict c = malloc(p * sizeof *c), *restrict turned = malloc(m * p * sizeof *turned);
    memset(a_bar, 0, n * m * sizeof *a_bar);
    memset(b_bar, 0, m * p * sizeof *b_bar);
    for (long k = 0; k < m; k++)
        for (long j = 0; j < p; j++)
            turned[j * m + k] = b[k * p + j];
    for (long i = 0; i < n; i++) {
        memset(c, 0, p * sizeof *c);
        for (long k = 0; k < m; k++)
            for (long j = 0; j < p; j++)
                c[j] += a[i * m + k] * b[k * p + j];
        for (long j = 0; j < p; j++) {
            total += c[j] * c[j];
            c[j] *= 2;
        }
        for (long j = 0; j < p; j++)
            for (long k = 0; k < m; k++)
                a_bar[i * m + k] += c[j] * turned[j * m + k];
        for (long k = 0; k < m; k++)
            for (long j = 0; j < p; j++)
                b_bar[k * p + j] += a[i * m + k] * c[j];
    }
    free(c);
    free(turned);
    return total;
}

static double factor(long n, const double *restrict a, double *restrict l)
{
    double log_det = 0;
    for (long j = 0; j < n; j++) {
        double s = a[j * n + j];
        for (long k = 0; k < j; k++)
            s -= l[j * n + k] * l[j * n + k];
        l[j * n + j] = sqrt(s);
        log_det += 2 * log(l[j * n + j]);
        for (long i = j + 1; i < n; i++) {
            s = a[i * n + j];
            for (long k = 0; k < j; k++)
                s -= l[i * n + k] * l[j * n + k];
            l[i * n + j] = s / l[j * n + j];
        }
    }
    return log_det;
}

double cholesky(long n, long n_, const double *a)
{
    double *l = calloc(n * n, sizeof *l), log_det = factor(n, a, l);
    free(l);
    return log_det;
}

double cholesky_gradient(long n, long n_, const double *restrict a, double *restrict a_bar)
{
    double *restrict l = malloc(n * n * sizeof *l), log_det = factor(n, a, l);
    memset(a_bar, 0, n * n * sizeof *a_bar);
    for (long j = 0; j < n; j++)
        a_bar[j * n + j] = 2 / l[j * n + j];
    for (long j = n - 1; j >= 0; j--) {                 /* a_bar holds the adjoint of l until it is the one of a */
        double *restrict row = a_bar + j * n, d_bar = row[j], scale = 1 / l[j * n + j];
        for (long i = n - 1; i > j; i--) {
            double v = a_bar[i * n + j] * scale;
            a_bar[i * n + j] = v;
            d_bar -= v * l[i * n + j];
            for (long k = 0; k < j; k++) {
                a_bar[i * n + k] -= v * l[j * n + k];
                row[k] -= v * l[i * n + k];
            }
        }
        row[j] = 0.5 * d_bar * scale;
        for (long k = 0; k < j; k++)
            row[k] -= 2 * row[j] * l[j * n + k];
    }
    free(l);
    return log_det;
}

static double substitute(long n, const double *restrict l, const double *restrict b, double *restrict x)
{
    for (long i = 0; i < n; i++) {
        double s = b[i];
        for (long j = 0; j < i; j++)
            s -= l[i * n + j] * x[j];
        x[i] = s / l[i * n + i];
    }
    double total = 0;
    for (long i = 0; i < n; i++)
        total += x[i] * x[i];
    return total;
}

double triangular(long n, long n_, const double *l, long n__, const double *b)
{
    double *x = calloc(n, sizeof *x), total = substitute(n, l, b, x);
    free(x);
    return total;
}

double triangular_gradient(long n, long n_, const double *restrict l, long n__, const double *restrict b,
                           double *restrict l_bar, double *restrict b_bar)
{
    double *restrict x = malloc(n * sizeof *x), total = substitute(n, l, b, x);
    for (long i = 0; i < n; i++)
        b_bar[i] = 2 * x[i];
    for (long i = n - 1; i >= 0; i--) {
        double s_bar = b_bar[i] / l[i * n + i];
        b_bar[i] = s_bar;
        for (long j = 0; j < i; j++) {
            b_bar[j] -= s_bar * l[i * n + j];
            l_bar[i * n + j] = -s_bar * x[j];
        }
        l_bar[i * n + i] = -s_bar * x[i];
        memset(l_bar + i * n + i + 1, 0, (n - i - 1) * sizeof *l_bar);
    }
    free(x);
    return total;
}

double gram_schmidt(long m, long n, const double *a)
{
    double *q = malloc(m * n * sizeof *q), volume = 0;
    memcpy(q, a, m * n * sizeof *q);
    for (long j = 0; j < n; j++) {
        for (long i = 0; i < j; i++) {
            double r = 0;
            for (long t = 0; t < m; t++)
                r += q[t * n + i] * q[t * n + j];
            for (long t = 0; t < m; t++)
                q[t * n + j] -= r * q[t * n + i];
        }
        double s = 0;
        for (long t = 0; t < m; t++)
            s += q[t * n + j] * q[t * n + j];
        double size = sqrt(s);
        for (long t = 0; t < m; t++)
            q[t * n + j] /= size;
        volume += log(size);
    }
    free(q);
    return volume;
}

/* Columns are kept as rows; a column before each projection is found again by adding the projection. */
double gram_schmidt_gradient(long m, long n, const double *restrict a, double *restrict a_bar)
{
    double *q = malloc(m * n * sizeof *q), *q_bar = calloc(m * n, sizeof *q), *r = malloc(n * n * sizeof *r);
    double volume = 0;
    for (long t = 0; t < m; t++)
        for (long j = 0; j < n; j++)
            q[j * m + t] = a[t * n + j];
    for (long j = 0; j < n; j++) {
        double *restrict v = q + j * m, s = 0;
        for (long i = 0; i < j; i++) {
            const double *restrict u = q + i * m;
            double d = 0;
            for (long t = 0; t < m; t++)
                d += u[t] * v[t];
            for (long t = 0; t < m; t++)
                v[t] -= d * u[t];
            r[j * n + i] = d;
        }
        for (long t = 0; t < m; t++)
            s += v[t] * v[t];
        double size = sqrt(s), scale = 1 / size;
        for (long t = 0; t < m; t++)
            v[t] *= scale;
        r[j * n + j] = size;
        volume += log(size);
    }
    for (long j = n - 1; j >= 0; j--) {
        double *restrict v = q + j * m, *restrict v_bar = q_bar + j * m, size = r[j * n + j], d = 0;
        for (long t = 0; t < m; t++)
            d += v[t] * v_bar[t];
        double along = (1 - d) / size, scale = 1 / size;
        for (long t = 0; t < m; t++) {
            v_bar[t] = v_bar[t] * scale + along * v[t];
            v[t] *= size;
        }
        for (long i = j - 1; i >= 0; i--) {
            const double *restrict u = q + i * m;
            double *restrict u_bar = q_bar + i * m, here = r[j * n + i], r_bar = 0;
            for (long t = 0; t < m; t++)
                r_bar -= u[t] * v_bar[t];
            for (long t = 0; t < m; t++) {
                v[t] += here * u[t];
                u_bar[t] += r_bar * v[t] - here * v_bar[t];
                v_bar[t] += r_bar * u[t];
            }
        }
    }
    for (long t = 0; t < m; t++)
        for (long j = 0; j < n; j++)
            a_bar[t * n + j] = q_bar[j * m + t];
    free(q);
    free(q_bar);
    free(r);
    return volume;
}
