/* Dynamic programs, loop by loop as in bench/ordinary/dynamic.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double hmm_forward(long n, const double *start, long n1, long n2, const double *move, long n3, long signs,
                   const double *emit, long steps, const long *seen)
{
    double *alpha = malloc(n * sizeof *alpha), *after = malloc(n * sizeof *after), likelihood = 0;
    for (long s = 0; s < n; s++)
        alpha[s] = start[s] * emit[s * signs + seen[0]];
    for (long t = 1; t < steps; t++) {
        double scale = 0;
        for (long s = 0; s < n; s++) {
            double total = 0;
            for (long r = 0; r < n; r++)
                total += alpha[r] * move[r * n + s];
            after[s] = total * emit[s * signs + seen[t]];
            scale += after[s];
        }
        likelihood += log(scale);
        for (long s = 0; s < n; s++)
            alpha[s] = after[s] / scale;
    }
    free(alpha);
    free(after);
    return likelihood;
}

/* Forward and backward, both scaled: beta holds the derivatives by the entries of alpha. */
double hmm_forward_gradient(long n, const double *restrict start, long n1, long n2, const double *restrict move,
                            long n3, long signs, const double *restrict emit, long steps,
                            const long *restrict seen, double *restrict start_bar, double *restrict move_bar,
                            double *restrict emit_bar)
{
    double *restrict alpha = malloc(steps * n * sizeof *alpha), *restrict sums = malloc(steps * n * sizeof *sums);
    double *restrict scale = malloc(steps * sizeof *scale), *restrict beta = malloc(n * sizeof *beta);
    double *restrict after = malloc(n * sizeof *after), likelihood = 0;
    memset(move_bar, 0, n * n * sizeof *move_bar);
    memset(emit_bar, 0, n * signs * sizeof *emit_bar);
    for (long s = 0; s < n; s++)
        alpha[s] = start[s] * emit[s * signs + seen[0]];
    for (long t = 1; t < steps; t++) {
        double *now = alpha + t * n, *sum = sums + t * n, whole = 0;
        for (long s = 0; s < n; s++)
            sum[s] = 0;
        for (long r = 0; r < n; r++)
            for (long s = 0; s < n; s++)
                sum[s] += now[r - n] * move[r * n + s];
        for (long s = 0; s < n; s++) {
            now[s] = sum[s] * emit[s * signs + seen[t]];
            whole += now[s];
        }
        likelihood += log(whole);
        scale[t] = 1 / whole;
        for (long s = 0; s < n; s++)
            now[s] *= scale[t];
    }
    for (long s = 0; s < n; s++)
        beta[s] = 1;
    for (long t = steps - 1; t > 0; t--) {
        const double *last = alpha + (t - 1) * n, *sum = sums + t * n;
        for (long s = 0; s < n; s++) {
            double b = beta[s] * scale[t];
            emit_bar[s * signs + seen[t]] += sum[s] * b;
            after[s] = b * emit[s * signs + seen[t]];
        }
        for (long r = 0; r < n; r++) {
            double total = 0;
            for (long s = 0; s < n; s++) {
                move_bar[r * n + s] += last[r] * after[s];
                total += move[r * n + s] * after[s];
            }
            beta[r] = total;
        }
    }
    for (long s = 0; s < n; s++) {
        start_bar[s] = beta[s] * emit[s * signs + seen[0]];
        emit_bar[s * signs + seen[0]] += beta[s] * start[s];
    }
    free(alpha);
    free(sums);
    free(scale);
    free(beta);
    free(after);
    return likelihood;
}

/* The best path, backwards: path[t] is the state at t. */
static void best_path(long n, const double *restrict start, const double *restrict move, long signs,
                      const double *restrict emit, long steps, const long *restrict seen, long *restrict path)
{
    double *score = malloc(n * sizeof *score), *after = malloc(n * sizeof *after), *swap;
    long *before = malloc(steps * n * sizeof *before), state = 0;
    for (long s = 0; s < n; s++)
        score[s] = start[s] + emit[s * signs + seen[0]];
    for (long t = 1; t < steps; t++) {
        for (long s = 0; s < n; s++) {
            long best = 0;
            for (long r = 1; r < n; r++)
                if (score[r] + move[r * n + s] > score[best] + move[best * n + s])
                    best = r;
            before[t * n + s] = best;
            after[s] = score[best] + move[best * n + s] + emit[s * signs + seen[t]];
        }
        swap = score, score = after, after = swap;
    }
    for (long s = 1; s < n; s++)
        if (score[s] > score[state])
            state = s;
    for (long t = steps - 1; t >= 0; t--) {
        path[t] = state;
        if (t)
            state = before[t * n + state];
    }
    free(score);
    free(after);
    free(before);
}

double viterbi(long n, const double *start, long n1, long n2, const double *move, long n3, long signs,
               const double *emit, long steps, const long *seen)
{
    long *path = malloc(steps * sizeof *path);
    best_path(n, start, move, signs, emit, steps, seen, path);
    double total = start[path[0]] + emit[path[0] * signs + seen[0]];
    for (long t = 1; t < steps; t++)
        total += move[path[t - 1] * n + path[t]] + emit[path[t] * signs + seen[t]];
    free(path);
    return total;
}

double viterbi_gradient(long n, const double *restrict start, long n1, long n2, const double *restrict move, long n3,
                        long signs, const double *restrict emit, long steps, const long *restrict seen,
                        double *restrict start_bar, double *restrict move_bar, double *restrict emit_bar)
{
    long *path = malloc(steps * sizeof *path);
    best_path(n, start, move, signs, emit, steps, seen, path);
    memset(start_bar, 0, n * sizeof *start_bar);
    memset(move_bar, 0, n * n * sizeof *move_bar);
    memset(emit_bar, 0, n * signs * sizeof *emit_bar);
    double total = start[path[0]] + emit[path[0] * signs + seen[0]];
    start_bar[path[0]] = 1;
    emit_bar[path[0] * signs + seen[0]] = 1;
    for (long t = 1; t < steps; t++) {
        long k = path[t - 1] * n + path[t], l = path[t] * signs + seen[t];
        total += move[k] + emit[l];
        move_bar[k] += 1;
        emit_bar[l] += 1;
    }
    free(path);
    return total;
}

double soft_dtw(long n, const double *x, long m, const double *y, double gamma)
{
    long w = m + 1;
    double *r = malloc((n + 1) * w * sizeof *r);
    for (long k = 0; k < (n + 1) * w; k++)
        r[k] = INFINITY;
    r[0] = 0;
    for (long i = 1; i <= n; i++)
        for (long j = 1; j <= m; j++) {
            double a = r[(i - 1) * w + j - 1];
            double b = r[(i - 1) * w + j];
            double c = r[i * w + j - 1];
            double low = a < b ? a : b;
            low = c < low ? c : low;
            double total = exp((low - a) / gamma) + exp((low - b) / gamma) + exp((low - c) / gamma);
            double difference = x[i - 1] - y[j - 1];
            r[i * w + j] = difference * difference + low - gamma * log(total);
        }
    double result = r[n * w + m];
    free(r);
    return result;
}

/* The weights of the three neighbours are kept. */
double soft_dtw_gradient(long n, const double *restrict x, long m, const double *restrict y, double gamma,
                         double *restrict x_bar, double *restrict y_bar)
{
    double *restrict above = malloc((m + 1) * sizeof *above), *restrict weights = malloc(3 * n * m * sizeof *weights);
    for (long j = 0; j <= m; j++)
        above[j] = 1e30;
    above[0] = 0;
    for (long i = 0; i < n; i++) {
        double corner = above[0], left = 1e30;
        above[0] = 1e30;
        for (long j = 0; j < m; j++) {
            double up = above[j + 1], low = corner < up ? corner : up, *q = weights + 3 * (i * m + j);
            low = left < low ? left : low;
            q[0] = exp((low - corner) / gamma);
            q[1] = exp((low - up) / gamma);
            q[2] = exp((low - left) / gamma);
            double total = q[0] + q[1] + q[2], one = 1 / total, difference = x[i] - y[j];
            q[0] *= one;
            q[1] *= one;
            q[2] *= one;
            left = difference * difference + low - gamma * log(total);
            corner = up;
            above[j + 1] = left;
        }
    }
    double result = above[m];
    for (long j = 0; j <= m; j++)               /* from here on the derivatives by the cells below */
        above[j] = 0;
    above[m] = 1;
    memset(y_bar, 0, m * sizeof *y_bar);
    for (long i = n - 1; i >= 0; i--) {
        double right = 0, sum = 0, here = above[m];
        above[m] = 0;
        for (long j = m - 1; j >= 0; j--) {
            const double *q = weights + 3 * (i * m + j);
            double g = here + right, by = 2 * g * (x[i] - y[j]);
            sum += by;
            y_bar[j] -= by;
            right = g * q[2];
            here = above[j];
            above[j + 1] += g * q[1];
            above[j] = g * q[0];
        }
        x_bar[i] = sum;
    }
    free(above);
    free(weights);
    return result;
}

static double *distances(long n, const long *restrict a, long m, const long *restrict b, double insert, double del,
                         double replace)
{
    long w = m + 1;
    double *d = malloc((n + 1) * w * sizeof *d);
    d[0] = 0;
    for (long i = 1; i <= n; i++)
        d[i * w] = i * del;
    for (long j = 1; j <= m; j++)
        d[j] = j * insert;
    for (long i = 1; i <= n; i++)
        for (long j = 1; j <= m; j++) {
            double cost = a[i - 1] == b[j - 1] ? 0 : replace;
            double u = d[(i - 1) * w + j] + del, v = d[i * w + j - 1] + insert, t = d[(i - 1) * w + j - 1] + cost;
            double best = v < u ? v : u;
            d[i * w + j] = t < best ? t : best;
        }
    return d;
}

double edit_distance(long n, const long *a, long m, const long *b, double insert, double del, double replace)
{
    double *d = distances(n, a, m, b, insert, del, replace), result = d[n * (m + 1) + m];
    free(d);
    return result;
}

/* The derivatives are the numbers of edits on the way back through the table. */
double edit_distance_gradient(long n, const long *restrict a, long m, const long *restrict b, double insert,
                              double del, double replace, double *restrict insert_bar, double *restrict del_bar,
                              double *restrict replace_bar)
{
    long w = m + 1, i = n, j = m, inserted = 0, deleted = 0, replaced = 0;
    double *d = distances(n, a, m, b, insert, del, replace), result = d[n * w + m];
    while (i > 0 && j > 0) {
        int same = a[i - 1] == b[j - 1];
        double here = d[i * w + j];
        if (here == d[(i - 1) * w + j - 1] + (same ? 0 : replace))
            i--, j--, replaced += !same;
        else if (here == d[(i - 1) * w + j] + del)
            i--, deleted++;
        else
            j--, inserted++;
    }
    *insert_bar = inserted + j;
    *del_bar = deleted + i;
    *replace_bar = replaced;
    free(d);
    return result;
}

double unaligned(long steps, long signs, const double *scores, long count, const long *labels)
{
    long states = 2 * count + 1;
    double *alpha = malloc(states * sizeof *alpha), *after = malloc(states * sizeof *after), *swap;
    for (long s = 0; s < states; s++)
        alpha[s] = -1e30;
    alpha[0] = 0;
    for (long t = 0; t < steps; t++) {
        double norm = 0;
        for (long k = 0; k < signs; k++)
            norm += exp(scores[t * signs + k]);
        norm = log(norm);
        for (long s = 0; s < states; s++) {
            long k = s % 2 ? labels[s / 2] : 0;
            double a = alpha[s], b = -1e30, c = -1e30;
            if (s > 0)
                b = alpha[s - 1];
            if (s > 2 && k > 0 && k != labels[s / 2 - 1])
                c = alpha[s - 2];
            double high = a > b ? a : b;
            high = c > high ? c : high;
            double total = exp(a - high) + exp(b - high) + exp(c - high);
            after[s] = high + log(total) + scores[t * signs + k] - norm;
        }
        swap = alpha, alpha = after, after = swap;
    }
    double a = alpha[states - 1], b = alpha[states - 2], high = a > b ? a : b;
    free(alpha);
    free(after);
    return -(high + log(exp(a - high) + exp(b - high)));
}

/* The weights of the three predecessors of each state are kept, and the probabilities of the signs. */
double unaligned_gradient(long steps, long signs, const double *restrict scores, long count,
                          const long *restrict labels, double *restrict scores_bar)
{
    long states = 2 * count + 1;
    double *restrict alpha = malloc(states * sizeof *alpha), *restrict bar = calloc(states, sizeof *bar);
    double *restrict weights = malloc(3 * steps * states * sizeof *weights);
    for (long s = 0; s < states; s++)
        alpha[s] = -1e30;
    alpha[0] = 0;
    for (long t = 0; t < steps; t++) {
        double norm = 0, *chance = scores_bar + t * signs;
        for (long k = 0; k < signs; k++)
            norm += chance[k] = exp(scores[t * signs + k]);
        for (long k = 0; k < signs; k++)
            chance[k] /= norm;
        norm = log(norm);
        for (long s = states - 1; s >= 0; s--) {
            long k = s % 2 ? labels[s / 2] : 0;
            double a = alpha[s], b = s > 0 ? alpha[s - 1] : -1e30, *q = weights + 3 * (t * states + s);
            double c = s > 2 && k > 0 && k != labels[s / 2 - 1] ? alpha[s - 2] : -1e30;
            double high = a > b ? a : b;
            high = c > high ? c : high;
            q[0] = exp(a - high);
            q[1] = exp(b - high);
            q[2] = exp(c - high);
            double total = q[0] + q[1] + q[2], one = 1 / total;
            q[0] *= one;
            q[1] *= one;
            q[2] *= one;
            alpha[s] = high + log(total) + scores[t * signs + k] - norm;
        }
    }
    double a = alpha[states - 1], b = alpha[states - 2], high = a > b ? a : b;
    double ea = exp(a - high), eb = exp(b - high), result = -(high + log(ea + eb));
    bar[states - 1] = -ea / (ea + eb);
    bar[states - 2] = -eb / (ea + eb);
    for (long t = steps - 1; t >= 0; t--)
        for (long s = 0; s < states; s++) {
            const double *q = weights + 3 * (t * states + s);
            double g = bar[s];
            scores_bar[t * signs + (s % 2 ? labels[s / 2] : 0)] += g;
            bar[s] = g * q[0];
            if (s > 0)
                bar[s - 1] += g * q[1];
            if (s > 2)
                bar[s - 2] += g * q[2];
        }
    free(alpha);
    free(bar);
    free(weights);
    return result;
}
