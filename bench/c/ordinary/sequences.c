/* Layers over sequences, loop by loop as in bench/ordinary/sequences.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Attention and its adjoint for a type of numbers; the adjoint needs the weights of one query at a time. */
#define ATTENTION(NAME, T, EXP)                                                                                        \
double NAME(long n, long d, const T *q, long m, long dk, const T *k, long mv, long dv, const T *v)                     \
{                                                                                                                      \
    T scale = (T)(1 / sqrt((double)d)), total = 0;                                                                     \
    for (long i = 0; i < n; i++) {                                                                                     \
        T *weights = calloc(m, sizeof *weights), highest = (T)-1e30, norm = 0;                                         \
        for (long j = 0; j < m; j++) {                                                                                 \
            T s = 0;                                                                                                   \
            for (long c = 0; c < d; c++)                                                                               \
                s += q[i * d + c] * k[j * d + c];                                                                      \
            weights[j] = s * scale;                                                                                    \
            highest = weights[j] > highest ? weights[j] : highest;                                                     \
        }                                                                                                              \
        for (long j = 0; j < m; j++) {                                                                                 \
            weights[j] = EXP(weights[j] - highest);                                                                    \
            norm += weights[j];                                                                                        \
        }                                                                                                              \
        for (long c = 0; c < d; c++) {                                                                                 \
            T out = 0;                                                                                                 \
            for (long j = 0; j < m; j++)                                                                               \
                out += weights[j] * v[j * d + c];                                                                      \
            out /= norm;                                                                                               \
            total += out * out;                                                                                        \
        }                                                                                                              \
        free(weights);                                                                                                 \
    }                                                                                                                  \
    return total;                                                                                                      \
}                                                                                                                      \
double NAME##_gradient(long n, long d, const T *restrict q, long m, long dk, const T *restrict k, long mv, long dv,    \
                       const T *restrict v, T *restrict q_bar, T *restrict k_bar, T *restrict v_bar)                   \
{                                                                                                                      \
    T scale = (T)(1 / sqrt((double)d)), total = 0, *restrict p = malloc(m * sizeof *p);                                \
    T *restrict turned = malloc(m * d * sizeof *turned), *restrict out = malloc(d * sizeof *out);                      \
    memset(q_bar, 0, n * d * sizeof *q_bar);                                                                           \
    memset(k_bar, 0, m * d * sizeof *k_bar);                                                                           \
    memset(v_bar, 0, m * d * sizeof *v_bar);                                                                           \
    for (long j = 0; j < m; j++)                                                                                       \
        for (long c = 0; c < d; c++)                                                                                   \
            turned[c * m + j] = k[j * d + c];                                                                          \
    for (long i = 0; i < n; i++) {                                                                                     \
        const T *row = q + i * d;                                                                                      \
        T *row_bar = q_bar + i * d, highest = (T)-1e30, norm = 0, along = 0;                                           \
        memset(p, 0, m * sizeof *p);                                                                                   \
        memset(out, 0, d * sizeof *out);                                                                               \
        for (long c = 0; c < d; c++)                                                                                   \
            for (long j = 0; j < m; j++)                                                                               \
                p[j] += row[c] * turned[c * m + j];                                                                    \
        for (long j = 0; j < m; j++)                                                                                   \
            highest = p[j] > highest ? p[j] : highest;                                                                 \
        for (long j = 0; j < m; j++)                                                                                   \
            p[j] = EXP((p[j] - highest) * scale);                                                                      \
        for (long j = 0; j < m; j++)                                                                                   \
            norm += p[j];                                                                                              \
        for (long j = 0; j < m; j++) {                                                                                 \
            p[j] /= norm;                                                                                              \
            for (long c = 0; c < d; c++)                                                                               \
                out[c] += p[j] * v[j * d + c];                                                                         \
        }                                                                                                              \
        for (long c = 0; c < d; c++)                                                                                   \
            along += out[c] * out[c];                                                                                  \
        total += along;                                                                                                \
        for (long j = 0; j < m; j++) {                                                                                 \
            T p_bar = 0;                                                                                               \
            for (long c = 0; c < d; c++) {                                                                             \
                p_bar += out[c] * v[j * d + c];                                                                        \
                v_bar[j * d + c] += 2 * p[j] * out[c];                                                                 \
            }                                                                                                          \
            T s_bar = 2 * scale * p[j] * (p_bar - along);                                                              \
            for (long c = 0; c < d; c++) {                                                                             \
                row_bar[c] += s_bar * k[j * d + c];                                                                    \
                k_bar[j * d + c] += s_bar * row[c];                                                                    \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    free(p);                                                                                                           \
    free(turned);                                                                                                      \
    free(out);                                                                                                         \
    return total;                                                                                                      \
}

ATTENTION(attention, double, exp)
ATTENTION(attention_float32, float, expf)

double gru(long steps, long inputs, const double *xs, long size, const double *h0, long wr, long wc, const double *w,
           long ur, long uc, const double *u, long bs, const double *b)
{
    double total = 0, *h = memcpy(malloc(size * sizeof *h), h0, size * sizeof *h);
    for (long t = 0; t < steps; t++) {
        double *new = calloc(size, sizeof *new);
        for (long i = 0; i < size; i++) {
            double update = b[i], reset = b[size + i], candidate = b[2 * size + i], recurrent = 0;
            for (long k = 0; k < inputs; k++) {
                update += w[i * inputs + k] * xs[t * inputs + k];
                reset += w[(size + i) * inputs + k] * xs[t * inputs + k];
                candidate += w[(2 * size + i) * inputs + k] * xs[t * inputs + k];
            }
            for (long k = 0; k < size; k++) {
                update += u[i * size + k] * h[k];
                reset += u[(size + i) * size + k] * h[k];
                recurrent += u[(2 * size + i) * size + k] * h[k];
            }
            update = 1 / (1 + exp(-update));
            reset = 1 / (1 + exp(-reset));
            candidate = tanh(candidate + reset * recurrent);
            new[i] = (1 - update) * candidate + update * h[i];
            total += new[i] * new[i];
        }
        free(h);
        h = new;
    }
    free(h);
    return total;
}

/* out += m x, for a matrix given column by column, so that the loop over rows has no sum */
static void add_product(long rows, long columns, const double *restrict turned, const double *restrict x,
                        double *restrict out)
{
    for (long k = 0; k < columns; k++)
        for (long i = 0; i < rows; i++)
            out[i] += turned[k * rows + i] * x[k];
}

double gru_gradient(long steps, long inputs, const double *restrict xs, long size, const double *restrict h0, long wr,
                    long wc, const double *restrict w, long ur, long uc, const double *restrict u, long bs,
                    const double *restrict b, double *restrict h0_bar, double *restrict w_bar, double *restrict u_bar,
                    double *restrict b_bar)
{
    long n = size, rows = 3 * size;
    double total = 0, *restrict w_turned = malloc(rows * inputs * sizeof *w);
    double *restrict u_turned = malloc(rows * n * sizeof *u), *restrict a = malloc(rows * sizeof *a);
    double *restrict g = malloc(rows * sizeof *g), *restrict h_bar = calloc(n, sizeof *h_bar);
    double *states = malloc((steps + 1) * n * sizeof *states);
    double *gates = malloc(steps * 4 * n * sizeof *gates);          /* of a step: update, reset, candidate, U h of it */
    memset(w_bar, 0, rows * inputs * sizeof *w_bar);
    memset(u_bar, 0, rows * n * sizeof *u_bar);
    memset(b_bar, 0, rows * sizeof *b_bar);
    for (long i = 0; i < rows; i++) {
        for (long k = 0; k < inputs; k++)
            w_turned[k * rows + i] = w[i * inputs + k];
        for (long k = 0; k < n; k++)
            u_turned[k * rows + i] = u[i * n + k];
    }
    memcpy(states, h0, n * sizeof *states);
    for (long t = 0; t < steps; t++) {
        const double *restrict h = states + t * n;
        double *restrict new = states + (t + 1) * n, *restrict gate = gates + 4 * t * n;
        memcpy(a, b, rows * sizeof *a);
        memset(g, 0, rows * sizeof *g);
        add_product(rows, inputs, w_turned, xs + t * inputs, a);
        add_product(rows, n, u_turned, h, g);
        for (long i = 0; i < 2 * n; i++)
            gate[i] = 1 / (1 + exp(-a[i] - g[i]));
        for (long i = 0; i < n; i++)
            gate[2 * n + i] = tanh(a[2 * n + i] + gate[n + i] * g[2 * n + i]);
        memcpy(gate + 3 * n, g + 2 * n, n * sizeof *gate);
        for (long i = 0; i < n; i++) {
            new[i] = (1 - gate[i]) * gate[2 * n + i] + gate[i] * h[i];
            total += new[i] * new[i];
        }
    }
    for (long t = steps - 1; t >= 0; t--) {
        const double *restrict h = states + t * n, *restrict new = h + n, *restrict gate = gates + 4 * t * n;
        for (long i = 0; i < n; i++) {                  /* a, g: now the adjoints of W x + b and of U h */
            double bar = h_bar[i] + 2 * new[i], z = gate[i], r = gate[n + i], c = gate[2 * n + i];
            double c_bar = bar * (1 - z) * (1 - c * c);
            a[i] = g[i] = bar * (h[i] - c) * z * (1 - z);
            a[n + i] = g[n + i] = c_bar * gate[3 * n + i] * r * (1 - r);
            a[2 * n + i] = c_bar;
            g[2 * n + i] = c_bar * r;
            h_bar[i] = bar * z;
        }
        for (long i = 0; i < rows; i++) {
            b_bar[i] += a[i];
            for (long k = 0; k < inputs; k++)
                w_bar[i * inputs + k] += a[i] * xs[t * inputs + k];
            for (long k = 0; k < n; k++) {
                u_bar[i * n + k] += g[i] * h[k];
                h_bar[k] += g[i] * u[i * n + k];
            }
        }
    }
    memcpy(h0_bar, h_bar, n * sizeof *h0_bar);
    free(w_turned);
    free(u_turned);
    free(a);
    free(g);
    free(h_bar);
    free(states);
    free(gates);
    return total;
}
