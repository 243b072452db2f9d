/* Layers of networks, loop by loop as in bench/ordinary/layers.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A dense layer and its adjoint for a type of numbers; in the adjoint the loops over inputs run over rows. */
#define DENSE(NAME, T, TANH)                                                                                           \
double NAME(long n, long in, const T *x, long out, long m, const T *w, long size, const T *b)                          \
{                                                                                                                      \
    T total = 0;                                                                                                       \
    for (long i = 0; i < n; i++)                                                                                       \
        for (long o = 0; o < out; o++) {                                                                               \
            T s = b[o];                                                                                                \
            for (long k = 0; k < in; k++)                                                                              \
                s += w[o * in + k] * x[i * in + k];                                                                    \
            T y = TANH(s);                                                                                             \
            total += y * y;                                                                                            \
        }                                                                                                              \
    return total;                                                                                                      \
}                                                                                                                      \
double NAME##_gradient(long n, long in, const T *restrict x, long out, long m, const T *restrict w, long size,         \
                       const T *restrict b, T *restrict x_bar, T *restrict w_bar, T *restrict b_bar)                   \
{                                                                                                                      \
    T total = 0, *restrict turned = malloc(in * out * sizeof *turned), *restrict y = malloc(out * sizeof *y);          \
    memset(w_bar, 0, out * in * sizeof *w_bar);                                                                        \
    memset(b_bar, 0, out * sizeof *b_bar);                                                                             \
    memset(x_bar, 0, n * in * sizeof *x_bar);                                                                          \
    for (long o = 0; o < out; o++)                                                                                     \
        for (long k = 0; k < in; k++)                                                                                  \
            turned[k * out + o] = w[o * in + k];                                                                       \
    for (long i = 0; i < n; i++) {                                                                                     \
        const T *row = x + i * in;                                                                                     \
        T *row_bar = x_bar + i * in;                                                                                   \
        memcpy(y, b, out * sizeof *y);                                                                                 \
        for (long k = 0; k < in; k++)                                                                                  \
            for (long o = 0; o < out; o++)                                                                             \
                y[o] += turned[k * out + o] * row[k];                                                                  \
        for (long o = 0; o < out; o++)                                                                                 \
            y[o] = TANH(y[o]);                                                                                         \
        for (long o = 0; o < out; o++) {                                                                               \
            T s_bar = 2 * y[o] * (1 - y[o] * y[o]);                                                                    \
            total += y[o] * y[o];                                                                                      \
            b_bar[o] += s_bar;                                                                                         \
            for (long k = 0; k < in; k++) {                                                                            \
                w_bar[o * in + k] += s_bar * row[k];                                                                   \
                row_bar[k] += s_bar * w[o * in + k];                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    free(turned);                                                                                                      \
    free(y);                                                                                                           \
    return total;                                                                                                      \
}

DENSE(dense, double, tanh)
DENSE(dense_float32, float, tanhf)

double layer_norm(long n, long d, const double *x, long m, const double *gain, long k, const double *bias, long rows,
                  long columns, const double *target)
{
    double error = 0;
    for (long i = 0; i < n; i++) {
        double mean = 0, variance = 0;
        for (long j = 0; j < d; j++)
            mean += x[i * d + j];
        mean /= d;
        for (long j = 0; j < d; j++)
            variance += (x[i * d + j] - mean) * (x[i * d + j] - mean);
        double scale = 1 / sqrt(variance / d + 1e-5);
        for (long j = 0; j < d; j++) {
            double y = gain[j] * (x[i * d + j] - mean) * scale + bias[j], difference = y - target[i * d + j];
            error += difference * difference;
        }
    }
    return error;
}

double layer_norm_gradient(long n, long d, const double *restrict x, long m, const double *restrict gain, long k,
                           const double *restrict bias, long rows, long columns, const double *restrict target,
                           double *restrict x_bar, double *restrict gain_bar, double *restrict bias_bar)
{
    double error = 0;
    memset(gain_bar, 0, d * sizeof *gain_bar);
    memset(bias_bar, 0, d * sizeof *bias_bar);
    for (long i = 0; i < n; i++) {
        const double *row = x + i * d;
        double *bar = x_bar + i * d, mean = 0, variance = 0, sum = 0, along = 0;
        for (long j = 0; j < d; j++)
            mean += row[j];
        mean /= d;
        for (long j = 0; j < d; j++)
            variance += (row[j] - mean) * (row[j] - mean);
        double scale = 1 / sqrt(variance / d + 1e-5);
        for (long j = 0; j < d; j++) {
            double z = (row[j] - mean) * scale, difference = gain[j] * z + bias[j] - target[i * d + j];
            double y_bar = 2 * difference, z_bar = y_bar * gain[j];
            error += difference * difference;
            gain_bar[j] += y_bar * z;
            bias_bar[j] += y_bar;
            sum += z_bar;
            along += z_bar * z;
            bar[j] = z_bar;
        }
        sum /= d;
        along /= d;
        for (long j = 0; j < d; j++)
            bar[j] = scale * (bar[j] - sum - (row[j] - mean) * scale * along);
    }
    return error;
}

double classify(long n, long classes, const double *scores, long m, const long *labels)
{
    double loss = 0;
    for (long i = 0; i < n; i++) {
        const double *row = scores + i * classes;
        double highest = row[0], total = 0;
        for (long c = 1; c < classes; c++)
            if (row[c] > highest)
                highest = row[c];
        for (long c = 0; c < classes; c++)
            total += exp(row[c] - highest);
        loss += log(total) + highest - row[labels[i]];
    }
    return loss / n;
}

double classify_gradient(long n, long classes, const double *restrict scores, long m, const long *restrict labels,
                         double *restrict scores_bar)
{
    double loss = 0;
    for (long i = 0; i < n; i++) {
        const double *row = scores + i * classes;
        double *bar = scores_bar + i * classes, highest = row[0], total = 0;
        for (long c = 1; c < classes; c++)
            highest = row[c] > highest ? row[c] : highest;
        for (long c = 0; c < classes; c++)
            bar[c] = exp(row[c] - highest);
        for (long c = 0; c < classes; c++)
            total += bar[c];
        loss += log(total) + highest - row[labels[i]];
        double over = 1 / (total * n);
        for (long c = 0; c < classes; c++)
            bar[c] *= over;
        bar[labels[i]] -= 1.0 / n;
    }
    return loss / n;
}

double pool(long rows, long columns, long channels, const double *x, long m, const double *weights)
{
    double total = 0;
    for (long i = 0; i < rows / 2; i++)
        for (long j = 0; j < columns / 2; j++)
            for (long c = 0; c < channels; c++) {
                double largest = x[(2 * i * columns + 2 * j) * channels + c];
                for (long di = 0; di < 2; di++)
                    for (long dj = 0; dj < 2; dj++) {
                        double v = x[((2 * i + di) * columns + 2 * j + dj) * channels + c];
                        if (v > largest)
                            largest = v;
                    }
                total += weights[c] * largest * largest;
            }
    return total;
}

double pool_gradient(long rows, long columns, long channels, const double *restrict x, long m,
                     const double *restrict weights, double *restrict x_bar, double *restrict weights_bar)
{
    double total = 0;
    if (rows % 2 || columns % 2)
        memset(x_bar, 0, rows * columns * channels * sizeof *x_bar);
    memset(weights_bar, 0, channels * sizeof *weights_bar);
    for (long i = 0; i < rows / 2; i++)
        for (long j = 0; j < columns / 2; j++) {
            long start = (2 * i * columns + 2 * j) * channels, below = columns * channels;
            const double *a = x + start, *b = a + channels, *p = a + below, *q = p + channels;
            double *a_bar = x_bar + start, *b_bar = a_bar + channels, *p_bar = a_bar + below, *q_bar = p_bar + channels;
            for (long c = 0; c < channels; c++) {
                double largest = a[c];
                long which = 0;
                which = b[c] > largest ? 1 : which;
                largest = b[c] > largest ? b[c] : largest;
                which = p[c] > largest ? 2 : which;
                largest = p[c] > largest ? p[c] : largest;
                which = q[c] > largest ? 3 : which;
                largest = q[c] > largest ? q[c] : largest;
                double bar = 2 * weights[c] * largest;
                total += weights[c] * largest * largest;
                weights_bar[c] += largest * largest;
                a_bar[c] = which == 0 ? bar : 0;
                b_bar[c] = which == 1 ? bar : 0;
                p_bar[c] = which == 2 ? bar : 0;
                q_bar[c] = which == 3 ? bar : 0;
            }
        }
    return total;
}
