/* Iterative methods, loop by loop as in bench/ordinary/iterations.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double power_iteration(long n, long n_, const double *a, long n__, const double *start, long steps)
{
    double *v = malloc(n * sizeof *v), value = 0;
    memcpy(v, start, n * sizeof *v);
    for (long step = 0; step < steps; step++) {
        double *w = calloc(n, sizeof *w), square = 0;
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++)
                w[i] += a[i * n + j] * v[j];
        value = 0;
        for (long i = 0; i < n; i++) {
            value += v[i] * w[i];
            square += w[i] * w[i];
        }
        double norm = sqrt(square);
        for (long i = 0; i < n; i++)
            v[i] = w[i] / norm;
        free(w);
    }
    free(v);
    return value;
}

double power_iteration_gradient(long n, long n_, const double *restrict a, long n__, const double *restrict start,
                                long steps, double *restrict a_bar)
{
    double *vs = malloc((steps + 1) * n * sizeof *vs), *norms = malloc(steps * sizeof *norms), value = 0;
    double *restrict v_bar = malloc(n * sizeof *v_bar), *restrict w_bar = malloc(n * sizeof *w_bar);
    memcpy(vs, start, n * sizeof *vs);
    memset(a_bar, 0, n * n * sizeof *a_bar);
    for (long step = 0; step < steps; step++) {
        const double *restrict v = vs + step * n;
        double *restrict w = vs + (step + 1) * n, square = 0;
        value = 0;
        for (long i = 0; i < n; i++) {
            double s = 0;
            for (long j = 0; j < n; j++)
                s += a[i * n + j] * v[j];
            w[i] = s;
            value += v[i] * s;
            square += s * s;
        }
        double norm = norms[step] = sqrt(square);
        for (long i = 0; i < n; i++)
            w[i] /= norm;
    }
    for (long i = 0; i < n; i++)                        /* the value is that of the last step alone */
        w_bar[i] = vs[(steps - 1) * n + i];
    for (long step = steps - 1; step >= 0; step--) {
        const double *restrict v = vs + step * n, *restrict next = vs + (step + 1) * n;
        if (step < steps - 1) {
            double along = 0;
            for (long i = 0; i < n; i++)
                along += next[i] * v_bar[i];
            for (long i = 0; i < n; i++)
                w_bar[i] = (v_bar[i] - along * next[i]) / norms[step];
            memset(v_bar, 0, n * sizeof *v_bar);
        } else
            for (long i = 0; i < n; i++)
                v_bar[i] = norms[step] * next[i];
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++) {
                a_bar[i * n + j] += w_bar[i] * v[j];
                v_bar[j] += w_bar[i] * a[i * n + j];
            }
    }
    free(vs);
    free(norms);
    free(v_bar);
    free(w_bar);
    return value;
}

static double dot(long n, const double *a, const double *b)
{
    double s = 0;
    for (long i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

double conjugate_gradient(long n, long n_, const double *a, long n__, const double *b, double tolerance)
{
    double *x = calloc(n, sizeof *x), *r = malloc(n * sizeof *r), *p = malloc(n * sizeof *p);
    memcpy(r, b, n * sizeof *r);
    memcpy(p, b, n * sizeof *p);
    double rs = dot(n, r, r);
    while (rs > tolerance) {
        double *q = calloc(n, sizeof *q);
        for (long i = 0; i < n; i++) {
            double s = 0;
            for (long j = 0; j < n; j++)
                s += a[i * n + j] * p[j];
            q[i] = s;
        }
        double alpha = rs / dot(n, p, q);
        for (long i = 0; i < n; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        double new = dot(n, r, r);
        for (long i = 0; i < n; i++)
            p[i] = r[i] + new / rs * p[i];
        rs = new;
        free(q);
    }
    double total = dot(n, x, x);
    free(x);
    free(r);
    free(p);
    return total;
}

/* Each iteration keeps p, q, the residual before it and its two scalars. */
double conjugate_gradient_gradient(long n, long n_, const double *restrict a, long n__, const double *restrict b,
                                   double tolerance, double *restrict a_bar, double *restrict b_bar)
{
    long count = 0, room = 16;
    double *kept = malloc((3 * n + 2) * room * sizeof *kept), *restrict x = calloc(n, sizeof *x);
    memcpy(kept, b, n * sizeof *kept);
    memcpy(kept + 2 * n, b, n * sizeof *kept);
    double rs = dot(n, b, b);
    while (rs > tolerance) {
        if (count + 2 > room)
            kept = realloc(kept, (3 * n + 2) * (room *= 2) * sizeof *kept);
        double *restrict p = kept + count++ * (3 * n + 2), *restrict q = p + n, *restrict r = q + n;
        double *restrict p_next = r + n + 2, *restrict r_next = p_next + 2 * n, pq = 0, new = 0;
        for (long i = 0; i < n; i++) {
            double s = 0;
            for (long j = 0; j < n; j++)
                s += a[i * n + j] * p[j];
            q[i] = s;
            pq += p[i] * s;
        }
        double alpha = rs / pq;
        for (long i = 0; i < n; i++) {
            x[i] += alpha * p[i];
            r_next[i] = r[i] - alpha * q[i];
            new += r_next[i] * r_next[i];
        }
        double beta = new / rs;
        for (long i = 0; i < n; i++)
            p_next[i] = r_next[i] + beta * p[i];
        r[n] = rs;
        r[n + 1] = pq;
        rs = new;
    }
    double total = dot(n, x, x), rs_bar = 0, rs_next = rs;
    double *restrict p_bar = calloc(n, sizeof *p_bar), *restrict r_bar = calloc(n, sizeof *r_bar);
    double *restrict q_bar = malloc(n * sizeof *q_bar), *restrict x_bar = x;
    memset(a_bar, 0, n * n * sizeof *a_bar);
    for (long i = 0; i < n; i++)
        x_bar[i] *= 2;
    while (count-- > 0) {
        const double *restrict p = kept + count * (3 * n + 2), *restrict q = p + n, *restrict r = q + n;
        const double *restrict r_next = r + n + 2 + 2 * n;
        double before = r[n], pq = r[n + 1], alpha = before / pq, beta = rs_next / before, beta_bar = 0, alpha_bar = 0;
        for (long i = 0; i < n; i++)
            beta_bar += p_bar[i] * p[i];
        rs_bar += beta_bar / before;
        for (long i = 0; i < n; i++) {
            r_bar[i] += p_bar[i] + 2 * rs_bar * r_next[i];
            alpha_bar += x_bar[i] * p[i] - r_bar[i] * q[i];
        }
        rs_bar = alpha_bar / pq - beta_bar * beta / before;
        double pq_bar = -alpha_bar * alpha / pq;
        for (long i = 0; i < n; i++) {
            q_bar[i] = pq_bar * p[i] - alpha * r_bar[i];
            p_bar[i] = beta * p_bar[i] + alpha * x_bar[i] + pq_bar * q[i];
        }
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++) {
                a_bar[i * n + j] += q_bar[i] * p[j];
                p_bar[j] += q_bar[i] * a[i * n + j];
            }
        rs_next = before;
    }
    for (long i = 0; i < n; i++)
        b_bar[i] = r_bar[i] + p_bar[i] + 2 * rs_bar * b[i];
    free(kept);
    free(x);
    free(p_bar);
    free(r_bar);
    free(q_bar);
    return total;
}

double soft_paths(long n, long n_, const double *lengths, double softness)
{
    double *d = malloc(n * n * sizeof *d), total = 0;
    memcpy(d, lengths, n * n * sizeof *d);
    for (long k = 0; k < n; k++) {
        double *new = calloc(n * n, sizeof *new);
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++) {
                double a = d[i * n + j], b = d[i * n + k] + d[k * n + j];
                if (b < a)
                    new[i * n + j] = b - softness * log1p(exp((b - a) / softness));
                else
                    new[i * n + j] = a - softness * log1p(exp((a - b) / softness));
            }
        free(d);
        d = new;
    }
    for (long i = 0; i < n * n; i++)
        total += d[i];
    free(d);
    return total / (n * n);
}

/* The forward sweep keeps the weight of the path through k, for each k, i and j. */
double soft_paths_gradient(long n, long n_, const double *restrict lengths, double softness, double *restrict d_bar)
{
    double *weights = malloc(n * n * n * sizeof *weights), *restrict d = malloc(n * n * sizeof *d), total = 0;
    double *restrict row = malloc(n * sizeof *row), *restrict column = malloc(n * sizeof *column);
    memcpy(d, lengths, n * n * sizeof *d);
    for (long k = 0; k < n; k++) {
        memcpy(row, d + k * n, n * sizeof *row);
        for (long i = 0; i < n; i++)
            column[i] = d[i * n + k];
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++) {
                double a = d[i * n + j], b = column[i] + row[j], e = exp(-fabs(b - a) / softness);
                weights[(k * n + i) * n + j] = (b < a ? 1 : e) / (1 + e);
                d[i * n + j] = (b < a ? b : a) - softness * log1p(e);
            }
    }
    for (long i = 0; i < n * n; i++) {
        total += d[i];
        d_bar[i] = 1.0 / (n * n);
    }
    for (long k = n - 1; k >= 0; k--) {
        memset(row, 0, n * sizeof *row);
        for (long i = 0; i < n; i++) {
            column[i] = 0;
            for (long j = 0; j < n; j++) {
                double part = weights[(k * n + i) * n + j] * d_bar[i * n + j];
                d_bar[i * n + j] -= part;
                column[i] += part;
                row[j] += part;
            }
        }
        for (long i = 0; i < n; i++) {
            d_bar[i * n + k] += column[i];
            d_bar[k * n + i] += row[i];
        }
    }
    free(weights);
    free(d);
    free(row);
    free(column);
    return total / (n * n);
}
