/* Differential equations in time, loop by loop as in bench/ordinary/differential_equations.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double predator_prey(long four, const double *rates, long two, const double *start, long n, long columns,
                     const double *seen, double dt)
{
    double a = rates[0], b = rates[1], c = rates[2], d = rates[3], x = start[0], y = start[1], error = 0;
    for (long i = 0; i < n; i++) {
        double k1x = a * x - b * x * y, k1y = d * x * y - c * y;
        double u = x + 0.5 * dt * k1x, v = y + 0.5 * dt * k1y;
        double k2x = a * u - b * u * v, k2y = d * u * v - c * v;
        u = x + 0.5 * dt * k2x;
        v = y + 0.5 * dt * k2y;
        double k3x = a * u - b * u * v, k3y = d * u * v - c * v;
        u = x + dt * k3x;
        v = y + dt * k3y;
        double k4x = a * u - b * u * v, k4y = d * u * v - c * v;
        x += dt / 6 * (k1x + 2 * k2x + 2 * k3x + k4x);
        y += dt / 6 * (k1y + 2 * k2y + 2 * k3y + k4y);
        double ex = x - seen[2 * i], ey = y - seen[2 * i + 1];
        error += ex * ex + ey * ey;
    }
    return error;
}

/* The adjoints of a state at which the rates of change, with the adjoints kx and ky, were computed. */
static inline void stage(double a, double b, double c, double d, double x, double y, double kx, double ky,
                         double *x_bar, double *y_bar, double *bars)
{
    double xy = x * y;
    *x_bar = kx * (a - b * y) + ky * d * y;
    *y_bar = ky * (d * x - c) - kx * b * x;
    bars[0] += kx * x;
    bars[1] -= kx * xy;
    bars[2] -= ky * y;
    bars[3] += ky * xy;
}

double predator_prey_gradient(long four, const double *restrict rates, long two, const double *restrict start, long n,
                              long columns, const double *restrict seen, double dt, double *restrict rates_bar,
                              double *restrict start_bar)
{
    double a = rates[0], b = rates[1], c = rates[2], d = rates[3], x = start[0], y = start[1], error = 0;
    double half = 0.5 * dt, *restrict states = malloc((8 * n + 2) * sizeof *states), *s = states;
    for (long i = 0; i < n; i++, s += 8) {
        double k1x = a * x - b * x * y, k1y = d * x * y - c * y;
        double u2 = x + half * k1x, v2 = y + half * k1y, k2x = a * u2 - b * u2 * v2, k2y = d * u2 * v2 - c * v2;
        double u3 = x + half * k2x, v3 = y + half * k2y, k3x = a * u3 - b * u3 * v3, k3y = d * u3 * v3 - c * v3;
        double u4 = x + dt * k3x, v4 = y + dt * k3y, k4x = a * u4 - b * u4 * v4, k4y = d * u4 * v4 - c * v4;
        s[0] = x, s[1] = y, s[2] = u2, s[3] = v2, s[4] = u3, s[5] = v3, s[6] = u4, s[7] = v4;
        x += dt / 6 * (k1x + 2 * k2x + 2 * k3x + k4x);
        y += dt / 6 * (k1y + 2 * k2y + 2 * k3y + k4y);
        double ex = x - seen[2 * i], ey = y - seen[2 * i + 1];
        error += ex * ex + ey * ey;
    }
    s[0] = x, s[1] = y;
    double bars[4] = {0}, x_bar = 0, y_bar = 0;
    for (long i = n - 1; i >= 0; i--, s -= 8) {
        double px, py, sx, sy;
        x_bar += 2 * (s[0] - seen[2 * i]);
        y_bar += 2 * (s[1] - seen[2 * i + 1]);
        double sixth_x = dt / 6 * x_bar, sixth_y = dt / 6 * y_bar;
        stage(a, b, c, d, s[-2], s[-1], sixth_x, sixth_y, &px, &py, bars);
        sx = x_bar + px;
        sy = y_bar + py;
        stage(a, b, c, d, s[-4], s[-3], 2 * sixth_x + dt * px, 2 * sixth_y + dt * py, &px, &py, bars);
        sx += px;
        sy += py;
        stage(a, b, c, d, s[-6], s[-5], 2 * sixth_x + half * px, 2 * sixth_y + half * py, &px, &py, bars);
        sx += px;
        sy += py;
        stage(a, b, c, d, s[-8], s[-7], sixth_x + half * px, sixth_y + half * py, &px, &py, bars);
        x_bar = sx + px;
        y_bar = sy + py;
    }
    memcpy(rates_bar, bars, sizeof bars);
    start_bar[0] = x_bar, start_bar[1] = y_bar;
    free(states);
    return error;
}

double advection(long n, const double *u, long m, const double *wind, double ratio, long steps)
{
    double energy = 0, *now = malloc(n * sizeof *now);
    memcpy(now, u, n * sizeof *now);
    for (long step = 0; step < steps; step++) {
        double *new = malloc(n * sizeof *new);
        memcpy(new, now, n * sizeof *new);
        for (long i = 1; i < n - 1; i++) {
            if (wind[i] > 0)
                new[i] = now[i] - ratio * wind[i] * (now[i] - now[i - 1]);
            else
                new[i] = now[i] - ratio * wind[i] * (now[i + 1] - now[i]);
        }
        free(now);
        now = new;
    }
    for (long i = 0; i < n; i++)
        energy += now[i] * now[i];
    free(now);
    return energy;
}

double advection_gradient(long n, const double *restrict u, long m, const double *restrict wind, double ratio,
                          long steps, double *restrict u_bar, double *restrict wind_bar)
{
    double energy = 0, *path = malloc((steps + 1) * n * sizeof *path);
    double *bar = malloc(n * sizeof *bar), *next = malloc(n * sizeof *next);
    double *restrict up = calloc(n, sizeof *up), *restrict down = calloc(n, sizeof *down);
    for (long i = 1; i < n - 1; i++) {              /* one of the two is zero; both are at the ends */
        double w = ratio * wind[i];
        up[i] = w > 0 ? w : 0;
        down[i] = w > 0 ? 0 : w;
    }
    memcpy(path, u, n * sizeof *path);
    for (long step = 0; step < steps; step++) {
        const double *restrict now = path + step * n;
        double *restrict new = path + (step + 1) * n;
        new[0] = now[0], new[n - 1] = now[n - 1];
        for (long i = 1; i < n - 1; i++)
            new[i] = now[i] - up[i] * (now[i] - now[i - 1]) - down[i] * (now[i + 1] - now[i]);
    }
    const double *last = path + steps * n;
    for (long i = 0; i < n; i++) {
        energy += last[i] * last[i];
        bar[i] = 2 * last[i];
    }
    memset(wind_bar, 0, n * sizeof *wind_bar);
    for (long step = steps - 1; step >= 0; step--) {
        const double *restrict now = path + step * n, *restrict b = bar;
        double *restrict out = next;
        for (long i = 1; i < n - 1; i++) {
            double behind = now[i] - now[i - 1], ahead = now[i + 1] - now[i];
            wind_bar[i] -= (wind[i] > 0 ? behind : ahead) * b[i];
            out[i] = (1 - up[i] + down[i]) * b[i] + up[i + 1] * b[i + 1] - down[i - 1] * b[i - 1];
        }
        out[0] = b[0] + up[1] * b[1];
        out[n - 1] = b[n - 1] - down[n - 2] * b[n - 2];
        double *swap = bar;
        bar = next;
        next = swap;
    }
    for (long i = 0; i < n; i++)
        wind_bar[i] *= ratio;
    memcpy(u_bar, bar, n * sizeof *u_bar);
    free(path);
    free(bar);
    free(next);
    free(up);
    free(down);
    return energy;
}

double implicit_heat(long n, const double *u, long m, const double *conductivity, double slope, double dt, long steps)
{
    double energy = 0, *now = malloc(n * sizeof *now), *k = calloc(n + 1, sizeof *k);
    double *c = calloc(n, sizeof *c), *d = calloc(n, sizeof *d);
    memcpy(now, u, n * sizeof *now);
    for (long step = 0; step < steps; step++) {
        for (long i = 0; i < n + 1; i++) {
            double left = i > 0 ? now[i - 1] : 0, right = i < n ? now[i] : 0;
            k[i] = dt * conductivity[i] * (1 + slope * (left + right));
        }
        double below = 1 + k[0] + k[1];
        c[0] = -k[1] / below;
        d[0] = now[0] / below;
        for (long i = 1; i < n; i++) {
            below = 1 + k[i] + k[i + 1] + k[i] * c[i - 1];
            c[i] = -k[i + 1] / below;
            d[i] = (now[i] + k[i] * d[i - 1]) / below;
        }
        now[n - 1] = d[n - 1];
        for (long i = n - 2; i >= 0; i--)
            now[i] = d[i] - c[i] * now[i + 1];
    }
    for (long i = 0; i < n; i++)
        energy += now[i] * now[i];
    free(now);
    free(k);
    free(c);
    free(d);
    return energy;
}

double implicit_heat_gradient(long n, const double *restrict u, long m, const double *restrict conductivity,
                              double slope, double dt, long steps, double *restrict u_bar,
                              double *restrict conductivity_bar, double *restrict slope_bar)
{
    double energy = 0, in_slope = 0, *path = malloc((steps + 1) * n * sizeof *path);
    double *cs = malloc(steps * n * sizeof *cs), *belows = malloc(steps * n * sizeof *belows);
    double *ks = malloc(steps * (n + 1) * sizeof *ks);
    double *restrict d = malloc(n * sizeof *d), *restrict bar = malloc(n * sizeof *bar);
    memcpy(path, u, n * sizeof *path);
    for (long step = 0; step < steps; step++) {
        const double *restrict now = path + step * n;
        double *restrict new = path + (step + 1) * n, *restrict c = cs + step * n, *restrict over = belows + step * n;
        double *restrict k = ks + step * (n + 1);
        k[0] = dt * conductivity[0] * (1 + slope * now[0]);
        k[n] = dt * conductivity[n] * (1 + slope * now[n - 1]);
        for (long i = 1; i < n; i++)
            k[i] = dt * conductivity[i] * (1 + slope * (now[i - 1] + now[i]));
        over[0] = 1 / (1 + k[0] + k[1]);
        c[0] = -k[1] * over[0];
        d[0] = now[0] * over[0];
        for (long i = 1; i < n; i++) {
            over[i] = 1 / (1 + k[i] + k[i + 1] + k[i] * c[i - 1]);
            c[i] = -k[i + 1] * over[i];
            d[i] = (now[i] + k[i] * d[i - 1]) * over[i];
        }
        new[n - 1] = d[n - 1];
        for (long i = n - 2; i >= 0; i--)
            new[i] = d[i] - c[i] * new[i + 1];
    }
    const double *last = path + steps * n;
    for (long i = 0; i < n; i++) {
        energy += last[i] * last[i];
        bar[i] = 2 * last[i];
    }
    memset(conductivity_bar, 0, (n + 1) * sizeof *conductivity_bar);
    for (long step = steps - 1; step >= 0; step--) {
        const double *restrict now = path + step * n, *restrict new = now + n, *restrict c = cs + step * n;
        const double *restrict over = belows + step * n, *restrict k = ks + step * (n + 1);
        d[0] = bar[0] * over[0];                /* the matrix is symmetric: the same factors solve for the adjoint */
        for (long i = 1; i < n; i++)
            d[i] = (bar[i] + k[i] * d[i - 1]) * over[i];
        for (long i = n - 2; i >= 0; i--)
            d[i] -= c[i] * d[i + 1];
        memcpy(bar, d, n * sizeof *bar);
        for (long i = 0; i < n + 1; i++) {
            double flow = (i < n ? new[i] : 0) - (i > 0 ? new[i - 1] : 0);
            double k_bar = -dt * flow * ((i < n ? d[i] : 0) - (i > 0 ? d[i - 1] : 0));
            double around = (i > 0 ? now[i - 1] : 0) + (i < n ? now[i] : 0), hot = conductivity[i] * k_bar;
            conductivity_bar[i] += (1 + slope * around) * k_bar;
            in_slope += around * hot;
            if (i > 0)
                bar[i - 1] += slope * hot;
            if (i < n)
                bar[i] += slope * hot;
        }
    }
    memcpy(u_bar, bar, n * sizeof *u_bar);
    *slope_bar = in_slope;
    free(path);
    free(cs);
    free(belows);
    free(ks);
    free(d);
    free(bar);
    return energy;
}
