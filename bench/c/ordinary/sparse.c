/* Sums through indices, loop by loop as in bench/ordinary/sparse.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double csr_product(long nz, const double *values, long nz1, const long *columns, long n1, const long *starts, long m,
                   const double *x)
{
    double total = 0;
    for (long i = 0; i < n1 - 1; i++) {
        double y = 0;
        for (long k = starts[i]; k < starts[i + 1]; k++)
            y += values[k] * x[columns[k]];
        total += 0.5 * y * y;
    }
    return total;
}

double csr_product_gradient(long nz, const double *restrict values, long nz1, const long *restrict columns, long n1,
                            const long *restrict starts, long m, const double *restrict x,
                            double *restrict values_bar, double *restrict x_bar)
{
    double total = 0;
    memset(x_bar, 0, m * sizeof *x_bar);
    for (long i = 0; i < n1 - 1; i++) {
        double y = 0;
        for (long k = starts[i]; k < starts[i + 1]; k++)
            y += values[k] * x[columns[k]];
        total += 0.5 * y * y;
        for (long k = starts[i]; k < starts[i + 1]; k++) {
            values_bar[k] = y * x[columns[k]];
            x_bar[columns[k]] += y * values[k];
        }
    }
    return total;
}

double page_rank(long m, const long *source, long m1, const long *target, long m2, const double *weight, long n,
                 const double *interest, double damping, long steps)
{
    double *rank = malloc(n * sizeof *rank), *after = malloc(n * sizeof *after), total = 0;
    for (long i = 0; i < n; i++)
        rank[i] = 1.0 / n;
    for (long step = 0; step < steps; step++) {
        memset(after, 0, n * sizeof *after);
        for (long e = 0; e < m; e++)
            after[target[e]] += weight[e] * rank[source[e]];
        for (long i = 0; i < n; i++)
            rank[i] = (1 - damping) / n + damping * after[i];
    }
    for (long i = 0; i < n; i++)
        total += rank[i] * interest[i];
    free(rank);
    free(after);
    return total;
}

/* The ranks of all steps are kept; the sums of a step follow from the ranks after it. */
double page_rank_gradient(long m, const long *restrict source, long m1, const long *restrict target, long m2,
                          const double *restrict weight, long n, const double *restrict interest, double damping,
                          long steps, double *restrict weight_bar, double *restrict interest_bar,
                          double *restrict damping_bar)
{
    double *restrict ranks = malloc((steps + 1) * n * sizeof *ranks), *restrict bar = malloc(n * sizeof *bar);
    double *restrict sums = calloc(steps * n, sizeof *sums), *restrict next = malloc(n * sizeof *next);
    double total = 0, slope = 0;
    memset(weight_bar, 0, m * sizeof *weight_bar);
    for (long i = 0; i < n; i++)
        ranks[i] = 1.0 / n;
    for (long step = 0; step < steps; step++) {
        double *rank = ranks + step * n, *sum = sums + step * n;
        for (long e = 0; e < m; e++)
            sum[target[e]] += weight[e] * rank[source[e]];
        for (long i = 0; i < n; i++)
            rank[n + i] = (1 - damping) / n + damping * sum[i];
    }
    for (long i = 0; i < n; i++) {
        interest_bar[i] = ranks[steps * n + i];
        total += interest_bar[i] * interest[i];
        bar[i] = interest[i];
    }
    for (long step = steps - 1; step >= 0; step--) {
        const double *rank = ranks + step * n, *sum = sums + step * n;
        for (long i = 0; i < n; i++) {
            slope += bar[i] * (sum[i] - 1.0 / n);
            bar[i] *= damping;
            next[i] = 0;
        }
        for (long e = 0; e < m; e++) {
            weight_bar[e] += bar[target[e]] * rank[source[e]];
            next[source[e]] += bar[target[e]] * weight[e];
        }
        memcpy(bar, next, n * sizeof *bar);
    }
    *damping_bar = slope;
    free(ranks);
    free(sums);
    free(bar);
    free(next);
    return total;
}

double soft_histogram(long n, const double *x, long m, const double *centers, double width)
{
    double *bins = calloc(m, sizeof *bins), *part = malloc(m * sizeof *part), entropy = 0;
    for (long i = 0; i < n; i++) {
        double total = 0;
        for (long k = 0; k < m; k++) {
            double d = (x[i] - centers[k]) / width;
            part[k] = exp(-0.5 * d * d);
            total += part[k];
        }
        for (long k = 0; k < m; k++)
            bins[k] += part[k] / total;
    }
    for (long k = 0; k < m; k++) {
        double p = bins[k] / n;
        entropy -= p * log(p);
    }
    free(bins);
    free(part);
    return entropy;
}

/* The shares of all values are kept. */
double soft_histogram_gradient(long n, const double *restrict x, long m, const double *restrict centers,
                               double width, double *restrict x_bar, double *restrict centers_bar,
                               double *restrict width_bar)
{
    double *restrict bins = calloc(m, sizeof *bins), *restrict parts = malloc(n * m * sizeof *parts);
    double entropy = 0, slope = 0, over = 1 / width;
    memset(centers_bar, 0, m * sizeof *centers_bar);
    for (long i = 0; i < n; i++) {
        double total = 0, *part = parts + i * m;
        for (long k = 0; k < m; k++) {
            double d = (x[i] - centers[k]) * over;
            part[k] = exp(-0.5 * d * d);
            total += part[k];
        }
        total = 1 / total;
        for (long k = 0; k < m; k++) {
            part[k] *= total;
            bins[k] += part[k];
        }
    }
    for (long k = 0; k < m; k++) {
        double p = bins[k] / n;
        entropy -= p * log(p);
        bins[k] = -(log(p) + 1) / n;                    /* from here on the derivatives by the bins */
    }
    for (long i = 0; i < n; i++) {
        const double *part = parts + i * m;
        double mean = 0, sum = 0;
        for (long k = 0; k < m; k++)
            mean += part[k] * bins[k];
        for (long k = 0; k < m; k++) {
            double d = (x[i] - centers[k]) * over, g = -part[k] * (bins[k] - mean) * d * over;
            sum += g;
            centers_bar[k] -= g;
            slope -= g * d;
        }
        x_bar[i] = sum;
    }
    *width_bar = slope;
    free(bins);
    free(parts);
    return entropy;
}

double embedding(long v, long dims, const double *table, long count, long length, const long *words, long count1,
                 const double *label, long dims1, const double *w)
{
    double loss = 0;
    for (long b = 0; b < count; b++) {
        double score = 0;
        for (long d = 0; d < dims; d++) {
            double mean = 0;
            for (long k = 0; k < length; k++)
                mean += table[words[b * length + k] * dims + d];
            score += w[d] * mean / length;
        }
        loss += log(1 + exp(-label[b] * score));
    }
    return loss / count;
}

double embedding_gradient(long v, long dims, const double *restrict table, long count, long length,
                          const long *restrict words, long count1, const double *restrict label, long dims1,
                          const double *restrict w, double *restrict table_bar, double *restrict w_bar)
{
    double loss = 0, *restrict sums = malloc(dims * sizeof *sums);
    memset(table_bar, 0, v * dims * sizeof *table_bar);
    memset(w_bar, 0, dims * sizeof *w_bar);
    for (long b = 0; b < count; b++) {
        double score = 0;
        for (long d = 0; d < dims; d++)
            sums[d] = 0;
        for (long k = 0; k < length; k++) {
            const double *row = table + words[b * length + k] * dims;
            for (long d = 0; d < dims; d++)
                sums[d] += row[d];
        }
        for (long d = 0; d < dims; d++)
            score += w[d] * sums[d];
        double e = exp(-label[b] * score / length), g = -label[b] * e / ((1 + e) * length * count);
        loss += log(1 + e);
        for (long k = 0; k < length; k++) {
            double *row = table_bar + words[b * length + k] * dims;
            for (long d = 0; d < dims; d++)
                row[d] += g * w[d];
        }
        for (long d = 0; d < dims; d++)
            w_bar[d] += g * sums[d];
    }
    free(sums);
    return loss / count;
}

double segment_spread(long n, const double *x, long n1, const long *segment, long count)
{
    double *number = calloc(count, sizeof *number), *mean = calloc(count, sizeof *mean);
    double *spread = calloc(count, sizeof *spread), total = 0;
    for (long i = 0; i < n; i++) {
        number[segment[i]] += 1;
        mean[segment[i]] += x[i];
    }
    for (long s = 0; s < count; s++)
        mean[s] /= number[s];
    for (long i = 0; i < n; i++) {
        double d = x[i] - mean[segment[i]];
        spread[segment[i]] += d * d;
    }
    for (long s = 0; s < count; s++)
        total += sqrt(spread[s] / number[s]);
    free(number);
    free(mean);
    free(spread);
    return total;
}

/* The derivatives by the means vanish: the differences of a segment to its mean sum up to nothing. */
double segment_spread_gradient(long n, const double *restrict x, long n1, const long *restrict segment, long count,
                               double *restrict x_bar)
{
    double *restrict number = calloc(count, sizeof *number), *restrict mean = calloc(count, sizeof *mean);
    double *restrict spread = calloc(count, sizeof *spread), total = 0;
    for (long i = 0; i < n; i++) {
        number[segment[i]] += 1;
        mean[segment[i]] += x[i];
    }
    for (long s = 0; s < count; s++)
        mean[s] /= number[s];
    for (long i = 0; i < n; i++) {
        double d = x[i] - mean[segment[i]];
        spread[segment[i]] += d * d;
        x_bar[i] = d;
    }
    for (long s = 0; s < count; s++) {
        double deviation = sqrt(spread[s] / number[s]);
        total += deviation;
        spread[s] = 1 / (deviation * number[s]);        /* from here on the factor of the differences */
    }
    for (long i = 0; i < n; i++)
        x_bar[i] *= spread[segment[i]];
    free(number);
    free(mean);
    free(spread);
    return total;
}
