/* Finance, loop by loop as in bench/ordinary/finance.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double american_put(double spot, double strike, double rate, double vol, double maturity, long steps)
{
    double dt = maturity / steps, up = exp(vol * sqrt(dt)), down = 1 / up;
    double p = (exp(rate * dt) - down) / (up - down), discount = exp(-rate * dt);
    double *prices = calloc(steps + 1, sizeof *prices), *values = calloc(steps + 1, sizeof *values);
    for (long i = 0; i <= steps; i++) {
        prices[i] = spot * pow(up, 2 * i - steps);
        values[i] = fmax(strike - prices[i], 0);
    }
    for (long step = steps - 1; step >= 0; step--)
        for (long i = 0; i <= step; i++) {
            prices[i] = prices[i] * up;
            double kept = discount * (p * values[i + 1] + (1 - p) * values[i]);
            if (strike - prices[i] > kept)
                values[i] = strike - prices[i];
            else
                values[i] = kept;
        }
    double value = values[0];
    free(prices);
    free(values);
    return value;
}

/* The values of all steps are kept, one row of the tree after the other; a price is the strike less the value. */
double american_put_gradient(double spot, double strike, double rate, double vol, double maturity, long steps,
                             double *restrict spot_bar, double *restrict strike_bar, double *restrict rate_bar,
                             double *restrict vol_bar)
{
    double dt = maturity / steps, up = exp(vol * sqrt(dt)), down = 1 / up, grown = exp(rate * dt);
    double p = (grown - down) / (up - down), discount = exp(-rate * dt);
    double with_up = discount * p, with_down = discount * (1 - p);
    long nodes = (steps + 1) * (steps + 2) / 2, last = steps * (steps + 1) / 2;
    double *tree = malloc(nodes * sizeof *tree), *restrict prices = malloc((steps + 1) * sizeof *prices);
    double *restrict bar = calloc(steps + 2, sizeof *bar);
    char *exercised = malloc(nodes);
    for (long i = 0; i <= steps; i++) {
        prices[i] = spot * pow(up, 2 * i - steps);
        exercised[last + i] = strike - prices[i] > 0;
        tree[last + i] = exercised[last + i] ? strike - prices[i] : 0;
    }
    for (long step = steps - 1, row = last - steps; step >= 0; row -= step--) {
        double *restrict now = tree + row;
        const double *restrict after = now + step + 1;
        char *restrict flag = exercised + row;
        for (long i = 0; i <= step; i++) {
            prices[i] *= up;
            double kept = with_up * after[i + 1] + with_down * after[i], other = strike - prices[i];
            flag[i] = other > kept;
            now[i] = other > kept ? other : kept;
        }
    }
    double k = 0, s = 0, u = 0, a = 0, b = 0;
    bar[0] = 1;
    for (long step = 0, row = 0; step <= steps; row += ++step) {
        const double *now = tree + row, *after = now + step + 1;
        for (long i = step; i >= 0; i--) {
            double g = bar[i];
            bar[i] = 0;
            if (exercised[row + i]) {
                double part = g * (strike - now[i]);
                k += g;
                s -= part;
                u -= part * (2 * i - step);
            } else if (step < steps) {
                a += g * after[i + 1];
                b += g * after[i];
                bar[i + 1] += with_up * g;
                bar[i] = with_down * g;
            }
        }
    }
    double width = up - down, p_bar = discount * (a - b), discount_bar = p * a + (1 - p) * b;
    double up_bar = u / up + p_bar * (down * down - p * (1 + down * down)) / width;
    *spot_bar = s / spot;
    *strike_bar = k;
    *rate_bar = dt * (p_bar * grown / width - discount_bar * discount);
    *vol_bar = up_bar * up * sqrt(dt);
    double value = tree[0];
    free(tree);
    free(prices);
    free(bar);
    free(exercised);
    return value;
}

double barrier(long paths, long steps, const double *z, double spot, double strike, double level, double rate,
               double vol, double maturity)
{
    double dt = maturity / steps, total = 0;
    for (long i = 0; i < paths; i++) {
        double s = spot;
        int alive = 1;
        for (long t = 0; t < steps; t++) {
            s *= exp((rate - 0.5 * vol * vol) * dt + vol * sqrt(dt) * z[i * steps + t]);
            if (s > level) {
                alive = 0;
                break;
            }
        }
        if (alive && s > strike)
            total += s - strike;
    }
    return exp(-rate * maturity) * total / paths;
}

/* The last price depends on the sum of a path's numbers alone. */
double barrier_gradient(long paths, long steps, const double *restrict z, double spot, double strike, double level,
                        double rate, double vol, double maturity, double *restrict spot_bar,
                        double *restrict strike_bar, double *restrict rate_bar, double *restrict vol_bar)
{
    double dt = maturity / steps, drift = (rate - 0.5 * vol * vol) * dt, scale = vol * sqrt(dt), total = 0, ends = 0;
    double weighted = 0, count = 0;
    for (long i = 0; i < paths; i++) {
        double s = spot, sum = 0;
        long t = 0;
        for (; t < steps; t++) {
            s *= exp(drift + scale * z[i * steps + t]);
            if (s > level)
                break;
            sum += z[i * steps + t];
        }
        if (t == steps && s > strike) {
            total += s - strike;
            ends += s;
            weighted += s * sum;
            count++;
        }
    }
    double factor = exp(-rate * maturity) / paths;
    *spot_bar = factor * ends / spot;
    *strike_bar = -factor * count;
    *rate_bar = factor * maturity * (ends - total);
    *vol_bar = factor * (sqrt(dt) * weighted - vol * maturity * ends);
    return factor * total;
}

double heston(long paths, long steps, long two, const double *z, double spot, double strike, double rate, double v0,
              double kappa, double theta, double xi, double rho)
{
    double dt = 1.0 / steps, total = 0;
    for (long i = 0; i < paths; i++) {
        double x = log(spot), v = v0;
        for (long t = 0; t < steps; t++) {
            double z0 = z[(i * steps + t) * 2], z1 = z[(i * steps + t) * 2 + 1];
            double root = sqrt(v * dt), z2 = rho * z0 + sqrt(1 - rho * rho) * z1;
            x += (rate - 0.5 * v) * dt + root * z0;
            v += kappa * (theta - v) * dt + xi * root * z2;
            if (v < 1e-6)
                v = 1e-6;
        }
        total += fmax(exp(x) - strike, 0);
    }
    return exp(-rate) * total / paths;
}

double heston_gradient(long paths, long steps, long two, const double *restrict z, double spot, double strike,
                       double rate, double v0, double kappa, double theta, double xi, double rho,
                       double *restrict spot_bar, double *restrict rate_bar, double *restrict v0_bar,
                       double *restrict kappa_bar, double *restrict theta_bar, double *restrict xi_bar,
                       double *restrict rho_bar)
{
    double dt = 1.0 / steps, other = sqrt(1 - rho * rho), tilt = rho / other, start = log(spot), total = 0;
    double ends = 0, first = 0, k = 0, th = 0, s = 0, r = 0;
    double *restrict vs = malloc((steps + 1) * sizeof *vs), *restrict roots = malloc(steps * sizeof *roots);
    for (long i = 0; i < paths; i++) {
        const double *restrict draws = z + i * steps * 2;
        double x = start, v = v0;
        for (long t = 0; t < steps; t++) {
            double z0 = draws[2 * t], root = sqrt(v * dt), z2 = rho * z0 + other * draws[2 * t + 1];
            vs[t] = v;
            roots[t] = root;
            x += (rate - 0.5 * v) * dt + root * z0;
            v += kappa * (theta - v) * dt + xi * root * z2;
            if (v < 1e-6)
                v = 1e-6;
        }
        vs[steps] = v;
        double end = exp(x), v_bar = 0;
        if (end <= strike)
            continue;
        total += end - strike;
        ends += end;
        for (long t = steps - 1; t >= 0; t--) {
            double z0 = draws[2 * t], z1 = draws[2 * t + 1], z2 = rho * z0 + other * z1, root = roots[t], v = vs[t];
            if (vs[t + 1] == 1e-6)
                v_bar = 0;
            k += (theta - v) * v_bar;
            th += v_bar;
            s += root * z2 * v_bar;
            r += root * (z0 - tilt * z1) * v_bar;
            v_bar += dt * (0.5 * (end * z0 + xi * z2 * v_bar) / root - kappa * v_bar - 0.5 * end);
        }
        first += v_bar;
    }
    double factor = exp(-rate) / paths;
    *spot_bar = factor * ends / spot;
    *rate_bar = factor * (ends - total);
    *v0_bar = factor * first;
    *kappa_bar = factor * dt * k;
    *theta_bar = factor * dt * kappa * th;
    *xi_bar = factor * s;
    *rho_bar = factor * xi * r;
    free(vs);
    free(roots);
    return factor * total;
}
