/* ADBench's GMM objective and its gradient by hand.
 *
 * A row of icf holds d log diagonals, then the strictly lower triangle by columns, and icf_bar likewise.
 * work: 2 K d + d + K doubles.  The gradients are overwritten.  One pass over the points: the terms of a point, then
 * the way back of each component with what was kept of it (its Q(x - mu), which is in first-level cache). */
#include <math.h>
#include <string.h>

static double log_wishart_constant(long d, double gamma, long m)
{
    double dof = d + m + 1, log_gamma_d = 0.25 * d * (d - 1) * log(M_PI);
    for (long j = 0; j < d; j++)
        log_gamma_d += lgamma(0.5 * (dof - j));
    return dof * d * (log(gamma) - 0.5 * log(2.0)) - log_gamma_d;
}

static double logsumexp(const double *restrict v, long n)
{
    double biggest = v[0], total = 0;
    for (long k = 1; k < n; k++)
        biggest = v[k] > biggest ? v[k] : biggest;
    for (long k = 0; k < n; k++)
        total += exp(v[k] - biggest);
    return biggest + log(total);
}

static double squared_and_scaled(long d, const double *restrict x, const double *restrict mean, const double *restrict diagonal,
                                 const double *restrict lower, double *restrict centred, double *restrict scaled)
{
    for (long j = 0; j < d; j++) {
        centred[j] = x[j] - mean[j];
        scaled[j] = diagonal[j] * centred[j];
    }
    for (long j = 0; j < d; j++) {
        const double *restrict column = lower + j * (2 * d - j - 1) / 2 - (j + 1);
        double c = centred[j];
        for (long r = j + 1; r < d; r++)
            scaled[r] += column[r] * c;
    }
    double square = 0;
    for (long j = 0; j < d; j++)
        square += scaled[j] * scaled[j];
    return square;
}

static double prior(long d, long K, const double *restrict icf, double gamma, long m)
{
    long width = d + d * (d - 1) / 2;
    double total = 0;
    for (long k = 0; k < K; k++) {
        const double *restrict row = icf + k * width;
        double squares = 0, logs = 0;
        for (long j = 0; j < d; j++) {
            squares += exp(2 * row[j]);
            logs += row[j];
        }
        for (long j = d; j < width; j++)
            squares += row[j] * row[j];
        total += 0.5 * gamma * gamma * squares - m * logs;
    }
    return total - K * log_wishart_constant(d, gamma, m);
}

static void prepare(long d, long K, const double *restrict alphas, const double *restrict icf, double *restrict diagonals,
                    double *restrict offsets)
{
    long width = d + d * (d - 1) / 2;
    for (long k = 0; k < K; k++) {
        double logs = 0;
        for (long j = 0; j < d; j++) {
            diagonals[k * d + j] = exp(icf[k * width + j]);
            logs += icf[k * width + j];
        }
        offsets[k] = alphas[k] + logs;
    }
}

double gmm_value(long d, long K, long n, const double *restrict alphas, const double *restrict means,
                 const double *restrict icf, const double *restrict x, double gamma, long m, double *restrict work)
{
    long width = d + d * (d - 1) / 2;
    double *diagonals = work, *scaled = diagonals + K * d, *centred = scaled + K * d, *offsets = centred + d, terms[K];
    prepare(d, K, alphas, icf, diagonals, offsets);
    double likelihood = 0;
    for (long i = 0; i < n; i++) {
        for (long k = 0; k < K; k++)
            terms[k] = offsets[k] - 0.5 * squared_and_scaled(d, x + i * d, means + k * d, diagonals + k * d,
                                                             icf + k * width + d, centred, scaled);
        likelihood += logsumexp(terms, K);
    }
    return -0.5 * n * d * log(2 * M_PI) + likelihood - n * logsumexp(alphas, K) + prior(d, K, icf, gamma, m);
}

static void component_back(long d, double w, const double *restrict x, const double *restrict mean, const double *restrict diagonal,
                           const double *restrict lower, const double *restrict scaled, double *restrict scaled_bar,
                           double *restrict mean_bar, double *restrict log_diagonal_bar, double *restrict lower_bar)
{
    for (long j = 0; j < d; j++)
        scaled_bar[j] = -w * scaled[j];
    for (long j = 0; j < d; j++) {
        long offset = j * (2 * d - j - 1) / 2 - (j + 1);
        const double *restrict column = lower + offset;
        double *restrict column_bar = lower_bar + offset;
        double c = x[j] - mean[j], c_bar = diagonal[j] * scaled_bar[j];
        for (long r = j + 1; r < d; r++) {
            column_bar[r] += scaled_bar[r] * c;
            c_bar += column[r] * scaled_bar[r];
        }
        mean_bar[j] -= c_bar;
        log_diagonal_bar[j] += w + scaled_bar[j] * diagonal[j] * c;
    }
}

double gmm_gradient(long d, long K, long n, const double *restrict alphas, const double *restrict means,
                    const double *restrict icf, const double *restrict x, double gamma, long m, double *restrict alphas_bar,
                    double *restrict means_bar, double *restrict icf_bar, double *restrict work)
{
    long width = d + d * (d - 1) / 2;
    double *diagonals = work, *scaled = diagonals + K * d, *centred = scaled + K * d, *offsets = centred + d;
    double terms[K], scaled_bar[d];
    prepare(d, K, alphas, icf, diagonals, offsets);
    memset(alphas_bar, 0, K * sizeof(double));
    memset(means_bar, 0, K * d * sizeof(double));
    memset(icf_bar, 0, K * width * sizeof(double));

    double likelihood = 0;
    for (long i = 0; i < n; i++) {
        const double *point = x + i * d;
        for (long k = 0; k < K; k++)
            terms[k] = offsets[k] - 0.5 * squared_and_scaled(d, point, means + k * d, diagonals + k * d, icf + k * width + d,
                                                             centred, scaled + k * d);
        double lse = logsumexp(terms, K);
        likelihood += lse;
        for (long k = 0; k < K; k++) {
            double w = exp(terms[k] - lse);
            alphas_bar[k] += w;
            component_back(d, w, point, means + k * d, diagonals + k * d, icf + k * width + d, scaled + k * d, scaled_bar,
                           means_bar + k * d, icf_bar + k * width, icf_bar + k * width + d);
        }
    }

    double lse_alphas = logsumexp(alphas, K);
    for (long k = 0; k < K; k++) {
        alphas_bar[k] -= n * exp(alphas[k] - lse_alphas);
        for (long j = 0; j < d; j++)
            icf_bar[k * width + j] += gamma * gamma * diagonals[k * d + j] * diagonals[k * d + j] - m;
        for (long j = d; j < width; j++)
            icf_bar[k * width + j] += gamma * gamma * icf[k * width + j];
    }
    return -0.5 * n * d * log(2 * M_PI) + likelihood - n * lse_alphas + prior(d, K, icf, gamma, m);
}
