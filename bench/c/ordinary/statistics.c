/* Statistics, loop by loop as in bench/ordinary/statistics.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double logistic(long n, long m, const double *x, long n_, const double *y, long m_, const double *w, double b,
                double penalty)
{
    double loss = 0;
    for (long i = 0; i < n; i++) {
        double z = b;
        for (long j = 0; j < m; j++)
            z += x[i * m + j] * w[j];
        loss += log(1 + exp(-y[i] * z));
    }
    loss /= n;
    for (long j = 0; j < m; j++)
        loss += penalty * w[j] * w[j];
    return loss;
}

double logistic_gradient(long n, long m, const double *restrict x, long n_, const double *restrict y, long m_,
                         const double *restrict w, double b, double penalty, double *restrict w_bar,
                         double *restrict b_bar)
{
    double loss = 0, sum = 0;
    memset(w_bar, 0, m * sizeof *w_bar);
    for (long i = 0; i < n; i++) {
        double z = b;
        for (long j = 0; j < m; j++)
            z += x[i * m + j] * w[j];
        double e = exp(-y[i] * z), z_bar = -y[i] * e / (1 + e);
        loss += log(1 + e);
        sum += z_bar;
        for (long j = 0; j < m; j++)
            w_bar[j] += z_bar * x[i * m + j];
    }
    loss /= n;
    for (long j = 0; j < m; j++) {
        loss += penalty * w[j] * w[j];
        w_bar[j] = w_bar[j] / n + 2 * penalty * w[j];
    }
    *b_bar = sum / n;
    return loss;
}

double rbf(long n, long three, const double *points, long n_, const double *weights, double gamma)
{
    double total = 0;
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            double d2 = 0;
            for (long k = 0; k < 3; k++) {
                double d = points[i * 3 + k] - points[j * 3 + k];
                d2 += d * d;
            }
            total += weights[i] * weights[j] * exp(-gamma * d2);
        }
    return total;
}

double rbf_gradient(long n, long three, const double *restrict points, long n_, const double *restrict weights,
                    double gamma, double *restrict points_bar, double *restrict weights_bar,
                    double *restrict gamma_bar)
{
    double total = 0, g = 0;
    memset(points_bar, 0, 3 * n * sizeof *points_bar);
    memset(weights_bar, 0, n * sizeof *weights_bar);
    for (long i = 0; i < n; i++) {
        const double *p = points + 3 * i;
        double inner = 0, sx = 0, sy = 0, sz = 0;
        for (long j = 0; j < n; j++) {
            const double *q = points + 3 * j;
            double dx = p[0] - q[0], dy = p[1] - q[1], dz = p[2] - q[2], d2 = dx * dx + dy * dy + dz * dz;
            double e = exp(-gamma * d2), here = weights[j] * e, both = weights[i] * here;
            inner += here;
            weights_bar[j] += weights[i] * e;
            g -= both * d2;
            double c = -2 * gamma * both;
            sx += c * dx;
            sy += c * dy;
            sz += c * dz;
            points_bar[3 * j] -= c * dx;
            points_bar[3 * j + 1] -= c * dy;
            points_bar[3 * j + 2] -= c * dz;
        }
        total += weights[i] * inner;
        weights_bar[i] += inner;
        points_bar[3 * i] += sx;
        points_bar[3 * i + 1] += sy;
        points_bar[3 * i + 2] += sz;
    }
    *gamma_bar = g;
    return total;
}

double density(long n, const double *sample, long m, const double *at, double width)
{
    double scale = 1 / (n * width * sqrt(2 * M_PI)), total = 0;
    for (long q = 0; q < m; q++) {
        double p = 0;
        for (long i = 0; i < n; i++) {
            double u = (at[q] - sample[i]) / width;
            p += exp(-0.5 * u * u);
        }
        total += log(scale * p);
    }
    return total / m;
}

double density_gradient(long n, const double *restrict sample, long m, const double *restrict at, double width,
                        double *restrict sample_bar, double *restrict width_bar)
{
    double scale = 1 / (n * width * sqrt(2 * M_PI)), total = 0, sum = 0, *restrict part = malloc(n * sizeof *part);
    memset(sample_bar, 0, n * sizeof *sample_bar);
    for (long q = 0; q < m; q++) {
        double p = 0, squares = 0;
        for (long i = 0; i < n; i++) {
            double u = (at[q] - sample[i]) / width, e = exp(-0.5 * u * u);
            p += e;
            part[i] = e * u;
            squares += part[i] * u;
        }
        total += log(scale * p);
        sum += squares / p - 1;
        double factor = 1 / (p * width * m);
        for (long i = 0; i < n; i++)
            sample_bar[i] += factor * part[i];
    }
    *width_bar = sum / (width * m);
    free(part);
    return total / m;
}

double k_means(long n, long dims, const double *points, long count, long dims_, const double *centres)
{
    double total = 0;
    for (long i = 0; i < n; i++) {
        double best = 1e300;
        for (long c = 0; c < count; c++) {
            double d = 0;
            for (long k = 0; k < dims; k++) {
                double e = points[i * dims + k] - centres[c * dims + k];
                d += e * e;
            }
            if (d < best)
                best = d;
        }
        total += best;
    }
    return total / n;
}

double k_means_gradient(long n, long dims, const double *restrict points, long count, long dims_,
                        const double *restrict centres, double *restrict points_bar, double *restrict centres_bar)
{
    double total = 0;
    memset(centres_bar, 0, count * dims * sizeof *centres_bar);
    for (long i = 0; i < n; i++) {
        double best = 1e300;
        long which = 0;
        for (long c = 0; c < count; c++) {
            double d = 0;
            for (long k = 0; k < dims; k++) {
                double e = points[i * dims + k] - centres[c * dims + k];
                d += e * e;
            }
            if (d < best) {
                best = d;
                which = c;
            }
        }
        total += best;
        for (long k = 0; k < dims; k++) {
            double g = 2 * (points[i * dims + k] - centres[which * dims + k]) / n;
            points_bar[i * dims + k] = g;
            centres_bar[which * dims + k] -= g;
        }
    }
    return total / n;
}

double k_means_float32(long n, long two, const float *points, long count, long two_, const float *centres)
{
    double total = 0;
    for (long i = 0; i < n; i++) {
        float best = 1e30f;
        for (long c = 0; c < count; c++) {
            float dx = points[2 * i] - centres[2 * c], dy = points[2 * i + 1] - centres[2 * c + 1];
            float d = dx * dx + dy * dy;
            if (d < best)
                best = d;
        }
        total += best;
    }
    return total / n;
}
