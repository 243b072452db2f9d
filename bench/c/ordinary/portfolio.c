/* Portfolios, loop by loop as in bench/ordinary/portfolio.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double bootstrap(long scenarios, long n, const double *rates, double coupon)
{
    double total = 0;
    for (long s = 0; s < scenarios; s++) {
        const double *row = rates + s * n;
        double *factors = calloc(n, sizeof *factors);
        for (long i = 0; i < n; i++) {
            double annuity = 0;
            for (long j = 0; j < i; j++)
                annuity += factors[j];
            factors[i] = (1 - row[i] * annuity) / (1 + row[i]);
        }
        double price = factors[n - 1];
        for (long i = 0; i < n; i++) {
            double zero = -log(factors[i]) / (i + 1);
            price += coupon * exp(-(zero + 0.001) * (i + 1));
        }
        total += price;
        free(factors);
    }
    return total / scenarios;
}

/* The annuities are summed anew for each maturity, as in the program. */
double bootstrap_gradient(long scenarios, long n, const double *restrict rates, double coupon,
                          double *restrict rates_bar, double *restrict coupon_bar)
{
    double total = 0, sum = 0, *restrict f = malloc(n * sizeof *f), *restrict f_bar = malloc(n * sizeof *f_bar);
    double *restrict annuities = malloc(n * sizeof *annuities);
    for (long s = 0; s < scenarios; s++) {
        const double *restrict row = rates + s * n;
        double *restrict row_bar = rates_bar + s * n, bonds = 0;
        for (long i = 0; i < n; i++) {
            double annuity = 0;
            for (long j = 0; j < i; j++)
                annuity += f[j];
            annuities[i] = annuity;
            f[i] = (1 - row[i] * annuity) / (1 + row[i]);
        }
        for (long i = 0; i < n; i++) {
            double zero = -log(f[i]) / (i + 1), e = exp(-(zero + 0.001) * (i + 1));
            bonds += e;
            f_bar[i] = coupon * e / f[i];
        }
        total += f[n - 1] + coupon * bonds;
        sum += bonds;
        f_bar[n - 1] += 1;
        for (long i = n - 1; i >= 0; i--) {
            double g = f_bar[i] / (1 + row[i]), annuity_bar = -row[i] * g;
            row_bar[i] = -(annuities[i] + f[i]) * g / scenarios;
            for (long j = 0; j < i; j++)
                f_bar[j] += annuity_bar;
        }
    }
    *coupon_bar = sum / scenarios;
    free(f);
    free(f_bar);
    free(annuities);
    return total / scenarios;
}

double sharpe(long days, long n, const double *returns, long n_, const double *weights)
{
    double *means = calloc(n, sizeof *means), *cov = calloc(n * n, sizeof *cov), mean = 0, variance = 0;
    for (long t = 0; t < days; t++)
        for (long i = 0; i < n; i++)
            means[i] += returns[t * n + i] / days;
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            for (long t = 0; t < days; t++)
                cov[i * n + j] += (returns[t * n + i] - means[i]) * (returns[t * n + j] - means[j]);
            cov[i * n + j] /= days - 1;
        }
    for (long i = 0; i < n; i++) {
        mean += weights[i] * means[i];
        for (long j = 0; j < n; j++)
            variance += weights[i] * cov[i * n + j] * weights[j];
    }
    free(means);
    free(cov);
    return mean / sqrt(variance);
}

/* The matrix of covariances and its adjoint are formed as in the program, but along rows. */
double sharpe_gradient(long days, long n, const double *restrict returns, long n_, const double *restrict weights,
                       double *restrict returns_bar, double *restrict weights_bar)
{
    double *restrict means = calloc(n, sizeof *means), *restrict cov = calloc(n * n, sizeof *cov);
    double *restrict centred = malloc(n * sizeof *centred), mean = 0, variance = 0;
    for (long t = 0; t < days; t++)
        for (long i = 0; i < n; i++)
            means[i] += returns[t * n + i];
    for (long i = 0; i < n; i++)
        means[i] /= days;
    for (long t = 0; t < days; t++) {
        for (long i = 0; i < n; i++)
            centred[i] = returns[t * n + i] - means[i];
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++)
                cov[i * n + j] += centred[i] * centred[j];
    }
    for (long i = 0; i < n; i++) {
        double s = 0;
        for (long j = 0; j < n; j++)
            s += cov[i * n + j] * weights[j];
        weights_bar[i] = s / (days - 1);
        mean += weights[i] * means[i];
        variance += weights[i] * weights_bar[i];
    }
    double deviation = sqrt(variance), mean_bar = 1 / deviation, variance_bar = -0.5 * mean / (variance * deviation);
    for (long i = 0; i < n; i++) {
        weights_bar[i] = mean_bar * means[i] + 2 * variance_bar * weights_bar[i];
        for (long j = 0; j < n; j++)
            cov[i * n + j] = 2 * variance_bar / (days - 1) * weights[i] * weights[j];
    }
    for (long t = 0; t < days; t++) {                   /* the centred returns sum to zero, and so do their adjoints */
        double *restrict row = returns_bar + t * n;
        for (long j = 0; j < n; j++)
            row[j] = mean_bar * weights[j] / days;
        for (long i = 0; i < n; i++) {
            double c = returns[t * n + i] - means[i];
            for (long j = 0; j < n; j++)
                row[j] += c * cov[i * n + j];
        }
    }
    free(means);
    free(cov);
    free(centred);
    return mean / deviation;
}

double rebalanced(long days, long n, const double *returns, long n_, const double *target, double cost)
{
    double *held = malloc(n * sizeof *held), wealth = 1;
    memcpy(held, target, n * sizeof *held);
    for (long t = 0; t < days; t++) {
        double value = 0, turnover = 0;
        for (long i = 0; i < n; i++) {
            held[i] *= 1 + returns[t * n + i];
            value += held[i];
        }
        wealth *= value;
        for (long i = 0; i < n; i++) {
            double share = held[i] / value;
            if (fabs(share - target[i]) > 0.002) {
                turnover += fabs(share - target[i]);
                held[i] = target[i];
            } else
                held[i] = share;
        }
        wealth *= 1 - cost * turnover;
    }
    free(held);
    return log(wealth);
}

double rebalanced_gradient(long days, long n, const double *restrict returns, long n_, const double *restrict target,
                           double cost, double *restrict target_bar, double *restrict cost_bar)
{
    double *shares = malloc(days * n * sizeof *shares), *scalars = malloc(2 * days * sizeof *scalars), wealth = 1;
    double *restrict held = malloc(n * sizeof *held), *restrict held_bar = calloc(n, sizeof *held_bar), c = 0;
    memcpy(held, target, n * sizeof *held);
    for (long t = 0; t < days; t++) {
        double *restrict share = shares + t * n, value = 0, turnover = 0;
        for (long i = 0; i < n; i++) {
            held[i] *= 1 + returns[t * n + i];
            value += held[i];
        }
        double scale = 1 / value;
        for (long i = 0; i < n; i++) {
            share[i] = held[i] * scale;
            double off = fabs(share[i] - target[i]);
            turnover += off > 0.002 ? off : 0;
            held[i] = off > 0.002 ? target[i] : share[i];
        }
        wealth *= value * (1 - cost * turnover);
        scalars[2 * t] = scale;
        scalars[2 * t + 1] = turnover;
    }
    memset(target_bar, 0, n * sizeof *target_bar);
    for (long t = days - 1; t >= 0; t--) {
        const double *restrict share = shares + t * n;
        double scale = scalars[2 * t], turnover = scalars[2 * t + 1], kept = 1 / (1 - cost * turnover), along = 0;
        c -= turnover * kept;
        for (long i = 0; i < n; i++) {
            double off = share[i] - target[i];
            if (fabs(off) > 0.002) {
                double off_bar = copysign(cost * kept, -off);
                target_bar[i] += held_bar[i] - off_bar;
                held_bar[i] = off_bar;
            }
            along += held_bar[i] * share[i];
        }
        for (long i = 0; i < n; i++)
            held_bar[i] = (held_bar[i] + 1 - along) * scale * (1 + returns[t * n + i]);
    }
    for (long i = 0; i < n; i++)
        target_bar[i] += held_bar[i];
    *cost_bar = c;
    free(shares);
    free(scalars);
    free(held);
    free(held_bar);
    return log(wealth);
}
