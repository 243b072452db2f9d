/* The heat equation on a line, steps in place: u[i] += k (u[i-1] - 2 u[i] + u[i+1]) for all inner points at once; the
   sum of squares at the end, and its adjoint for the start and k.  kept: (steps + 1) * n doubles. */
#include <string.h>

static inline void step(long n, double k, const double *restrict from, double *restrict to)
{
    to[0] = from[0];
    to[n - 1] = from[n - 1];
    for (long i = 1; i < n - 1; i++)
        to[i] = from[i] + k * (from[i - 1] - 2 * from[i] + from[i + 1]);
}

static double squares(long n, const double *u)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += u[i] * u[i];
    return sum;
}

double heat(long n, long steps, double k, const double *start, double *restrict work)
{
    double *now = work, *next = work + n;
    memcpy(now, start, n * sizeof(double));
    for (long t = 0; t < steps; t++) {
        step(n, k, now, next);
        double *swap = now;
        now = next;
        next = swap;
    }
    return squares(n, now);
}

double heat_gradient(long n, long steps, double k, const double *start, double *restrict u_bar, double *restrict k_bar,
                     double *restrict kept, double *restrict work)
{
    memcpy(kept, start, n * sizeof(double));
    for (long t = 0; t < steps; t++)
        step(n, k, kept + t * n, kept + (t + 1) * n);
    const double *last = kept + steps * n;
    double total = 0, *g = u_bar, *h = work;
    for (long i = 0; i < n; i++)
        g[i] = 2 * last[i];
    for (long t = steps - 1; t >= 0; t--) {
        const double *u = kept + t * n;
        double sum = 0;
        for (long i = 1; i < n - 1; i++)
            sum += g[i] * (u[i - 1] - 2 * u[i] + u[i + 1]);
        total += sum;
        h[0] = g[0] + k * g[1];
        h[1] = g[1] + k * (g[2] - 2 * g[1]);
        for (long i = 2; i < n - 2; i++)
            h[i] = g[i] + k * (g[i - 1] - 2 * g[i] + g[i + 1]);
        h[n - 2] = g[n - 2] + k * (g[n - 3] - 2 * g[n - 2]);
        h[n - 1] = g[n - 1] + k * g[n - 2];
        double *swap = g;
        g = h;
        h = swap;
    }
    if (g != u_bar)
        memcpy(u_bar, g, n * sizeof(double));
    *k_bar = total;
    return squares(n, last);
}
