/* Likelihoods, loop by loop as in bench/ordinary/likelihoods.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double gaussian_process(long n, const double *x, long n_, const double *y, double amplitude, double length,
                        double noise)
{
    double *k = calloc(n * n, sizeof *k), *l = calloc(n * n, sizeof *l), *z = calloc(n, sizeof *z);
    double value = 0.5 * n * log(2 * M_PI);
    for (long i = 0; i < n; i++) {
        for (long j = 0; j < n; j++) {
            double u = (x[i] - x[j]) / length;
            k[i * n + j] = amplitude * amplitude * exp(-0.5 * u * u);
        }
        k[i * n + i] += noise * noise;
    }
    for (long i = 0; i < n; i++)
        for (long j = 0; j <= i; j++) {
            double s = k[i * n + j];
            for (long m = 0; m < j; m++)
                s -= l[i * n + m] * l[j * n + m];
            if (i == j)
                l[i * n + j] = sqrt(s);
            else
                l[i * n + j] = s / l[j * n + j];
        }
    for (long i = 0; i < n; i++) {
        double s = y[i];
        for (long j = 0; j < i; j++)
            s -= l[i * n + j] * z[j];
        z[i] = s / l[i * n + i];
        value += 0.5 * z[i] * z[i] + log(l[i * n + i]);
    }
    free(k);
    free(l);
    free(z);
    return value;
}

/* With the inverse of the factor the adjoint of the kernel is (K^-1 - a a') / 2, a = K^-1 y: the text-book gradient. */
double gaussian_process_gradient(long n, const double *restrict x, long n_, const double *restrict y,
                                 double amplitude, double length, double noise, double *restrict y_bar,
                                 double *restrict amplitude_bar, double *restrict length_bar,
                                 double *restrict noise_bar)
{
    double *restrict k = malloc(n * n * sizeof *k), *restrict l = malloc(n * n * sizeof *l);
    double *restrict inverse = calloc(n * n, sizeof *inverse), *restrict row = malloc(n * sizeof *row);
    double *restrict z = malloc(n * sizeof *z), value = 0.5 * n * log(2 * M_PI), a = 0, s2 = 0, d = 0;
    for (long i = 0; i < n; i++) {
        for (long j = 0; j <= i; j++) {
            double u = (x[i] - x[j]) / length;
            k[i * n + j] = amplitude * amplitude * exp(-0.5 * u * u);
        }
        for (long j = 0; j <= i; j++) {
            double s = k[i * n + j];
            for (long m = 0; m < j; m++)
                s -= l[i * n + m] * l[j * n + m];
            l[i * n + j] = i == j ? sqrt(s + noise * noise) : s / l[j * n + j];
        }
        double s = y[i], scale = 1 / l[i * n + i];
        for (long j = 0; j < i; j++)
            s -= l[i * n + j] * z[j];
        z[i] = s * scale;
        value += 0.5 * z[i] * z[i] + log(l[i * n + i]);
        for (long m = 0; m < i; m++)                    /* row i of the inverse of l */
            for (long j = 0; j <= m; j++)
                inverse[i * n + j] -= l[i * n + m] * inverse[m * n + j];
        for (long j = 0; j < i; j++)
            inverse[i * n + j] *= scale;
        inverse[i * n + i] = scale;
    }
    memset(y_bar, 0, n * sizeof *y_bar);
    for (long m = 0; m < n; m++)
        for (long j = 0; j <= m; j++)
            y_bar[j] += inverse[m * n + j] * z[m];
    for (long i = 0; i < n; i++) {
        for (long j = 0; j <= i; j++)
            row[j] = -y_bar[i] * y_bar[j];
        for (long m = i; m < n; m++)
            for (long j = 0; j <= i; j++)
                row[j] += inverse[m * n + i] * inverse[m * n + j];
        for (long j = 0; j < i; j++) {                  /* entries below the diagonal count twice */
            double u = x[i] - x[j], part = row[j] * k[i * n + j];
            a += part;
            d += part * u * u;
        }
        a += 0.5 * row[i] * k[i * n + i];
        s2 += 0.5 * row[i];
    }
    *amplitude_bar = 2 * a / amplitude;
    *length_bar = d / (length * length * length);
    *noise_bar = 2 * s2 * noise;
    free(k);
    free(l);
    free(inverse);
    free(row);
    free(z);
    return value;
}

double poisson(long n, long m, const double *x, long n_, const double *counts, long m_, const double *w)
{
    double total = 0;
    for (long i = 0; i < n; i++) {
        double eta = 0;
        for (long j = 0; j < m; j++)
            eta += x[i * m + j] * w[j];
        double rate = exp(eta);
        total += rate - counts[i] * log(rate) + lgamma(counts[i] + 1);
    }
    return total / n;
}

double poisson_gradient(long n, long m, const double *restrict x, long n_, const double *restrict counts, long m_,
                        const double *restrict w, double *restrict w_bar)
{
    double total = 0;
    memset(w_bar, 0, m * sizeof *w_bar);
    for (long i = 0; i < n; i++) {
        double eta = 0;
        for (long j = 0; j < m; j++)
            eta += x[i * m + j] * w[j];
        double rate = exp(eta), eta_bar = (rate - counts[i]) / n;
        total += rate - counts[i] * eta + lgamma(counts[i] + 1);
        for (long j = 0; j < m; j++)
            w_bar[j] += eta_bar * x[i * m + j];
    }
    return total / n;
}

double autoregression(long n, const double *x, long p, const double *phi, double omega, double alpha, double beta)
{
    double h = omega / (1 - alpha - beta), total = 0;
    for (long t = p; t < n; t++) {
        double e = x[t];
        for (long k = 0; k < p; k++)
            e -= phi[k] * x[t - 1 - k];
        total += 0.5 * (log(h) + e * e / h);
        h = omega + alpha * e * e + beta * h;
    }
    return total;
}

double autoregression_gradient(long n, const double *restrict x, long p, const double *restrict phi, double omega,
                               double alpha, double beta, double *restrict phi_bar, double *restrict omega_bar,
                               double *restrict alpha_bar, double *restrict beta_bar)
{
    double *restrict es = malloc(n * sizeof *es), *restrict hs = malloc(n * sizeof *hs), room = 1 - alpha - beta;
    double h = omega / room, total = 0, h_bar = 0, o = 0, a = 0, b = 0;
    for (long t = p; t < n; t++) {
        double e = x[t];
        for (long k = 0; k < p; k++)
            e -= phi[k] * x[t - 1 - k];
        es[t] = e;
        hs[t] = h;
        total += 0.5 * (log(h) + e * e / h);
        h = omega + alpha * e * e + beta * h;
    }
    memset(phi_bar, 0, p * sizeof *phi_bar);
    for (long t = n - 1; t >= p; t--) {
        double e = es[t], inverse = 1 / hs[t], scaled = e * inverse, e_bar = scaled + 2 * alpha * e * h_bar;
        o += h_bar;
        a += h_bar * e * e;
        b += h_bar * hs[t];
        h_bar = beta * h_bar + 0.5 * (inverse - scaled * scaled);
        for (long k = 0; k < p; k++)
            phi_bar[k] -= e_bar * x[t - 1 - k];
    }
    double through = h_bar * omega / (room * room);
    *omega_bar = o + h_bar / room;
    *alpha_bar = a + through;
    *beta_bar = b + through;
    free(es);
    free(hs);
    return total;
}
