/* Differential equations on grids, loop by loop as in bench/ordinary/grids.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double squares(long n, const double *a)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += a[i] * a[i];
    return sum;
}

static double *copy(long n, const double *a)
{
    return memcpy(malloc(n * sizeof *a), a, n * sizeof *a);
}

double wave(long rows, long columns, const double *start, long m, long n, const double *speed, long steps)
{
    long count = rows * columns;
    double *old = copy(count, start), *now = copy(count, start);
    for (long step = 0; step < steps; step++) {
        double *restrict new = copy(count, now);
        for (long i = 1; i < rows - 1; i++)
            for (long j = 1; j < columns - 1; j++) {
                long at = i * columns + j;
                double around = now[at - columns] + now[at + columns] + now[at - 1] + now[at + 1] - 4 * now[at];
                new[at] = 2 * now[at] - old[at] + speed[at] * speed[at] * around;
            }
        free(old);
        old = now;
        now = new;
    }
    double energy = squares(count, now);
    free(old);
    free(now);
    return energy;
}

double wave_gradient(long rows, long columns, const double *restrict start, long m, long n,
                     const double *restrict speed, long steps, double *restrict start_bar, double *restrict speed_bar)
{
    long count = rows * columns;
    /* path[k + 1] is the membrane after k steps; path[0] the one before the start; scaled: speed² of the adjoint */
    double *path = calloc((steps + 2) * count, sizeof *path), *restrict scaled = calloc(count, sizeof *scaled);
    double *bar = malloc(count * sizeof *bar), *later = calloc(count, sizeof *later);
    memcpy(path, start, count * sizeof *path);
    memcpy(path + count, start, count * sizeof *path);
    for (long step = 0; step < steps; step++) {
        const double *restrict old = path + step * count, *restrict now = old + count;
        double *restrict new = path + (step + 2) * count;
        memcpy(new, now, count * sizeof *new);
        for (long i = 1; i < rows - 1; i++)
            for (long j = 1; j < columns - 1; j++) {
                long at = i * columns + j;
                double around = now[at - columns] + now[at + columns] + now[at - 1] + now[at + 1] - 4 * now[at];
                new[at] = 2 * now[at] - old[at] + speed[at] * speed[at] * around;
            }
    }
    const double *last = path + (steps + 1) * count;
    double energy = squares(count, last);
    for (long i = 0; i < count; i++)
        bar[i] = 2 * last[i];
    memset(speed_bar, 0, count * sizeof *speed_bar);
    for (long step = steps - 1; step >= 0; step--) {    /* bar: of the newest membrane; later: of the one before */
        const double *restrict now = path + (step + 1) * count, *restrict b = bar;
        double *restrict before = later;
        for (long i = 1; i < rows - 1; i++)
            for (long j = 1; j < columns - 1; j++) {
                long at = i * columns + j;
                double around = now[at - columns] + now[at + columns] + now[at - 1] + now[at + 1] - 4 * now[at];
                speed_bar[at] += b[at] * around;
                scaled[at] = speed[at] * speed[at] * b[at];
            }
        for (long i = 1; i < rows - 1; i++)
            for (long j = 1; j < columns - 1; j++) {
                long at = i * columns + j;
                before[at] += 2 * b[at] - 4 * scaled[at] + scaled[at - columns] + scaled[at + columns]
                              + scaled[at - 1] + scaled[at + 1];
            }
        for (long i = 1; i < rows - 1; i++) {           /* the border keeps its values, and is read */
            before[i * columns] += b[i * columns] + scaled[i * columns + 1];
            before[(i + 1) * columns - 1] += b[(i + 1) * columns - 1] + scaled[(i + 1) * columns - 2];
        }
        for (long j = 0, end = (rows - 1) * columns; j < columns; j++) {
            before[j] += b[j] + scaled[columns + j];
            before[end + j] += b[end + j] + scaled[end - columns + j];
        }
        double *swap = bar;
        bar = later;
        later = swap;
        for (long i = 1; i < rows - 1; i++) {
            for (long j = 1; j < columns - 1; j++)
                later[i * columns + j] = -later[i * columns + j];
            later[i * columns] = later[(i + 1) * columns - 1] = 0;
        }
        memset(later, 0, columns * sizeof *later);
        memset(later + (rows - 1) * columns, 0, columns * sizeof *later);
    }
    for (long i = 0; i < count; i++) {
        start_bar[i] = bar[i] + later[i];
        speed_bar[i] *= 2 * speed[i];
    }
    free(path);
    free(scaled);
    free(bar);
    free(later);
    return energy;
}

double reaction(long rows, long columns, const double *u, long m, long n, const double *v, double feed, double kill,
                long steps)
{
    long count = rows * columns;
    double *a = copy(count, u), *b = copy(count, v);
    for (long step = 0; step < steps; step++) {
        double *restrict new_u = calloc(count, sizeof *new_u), *restrict new_v = calloc(count, sizeof *new_v);
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < columns; j++) {
                long up = (i + rows - 1) % rows * columns + j, down = (i + 1) % rows * columns + j;
                long left = i * columns + (j + columns - 1) % columns, right = i * columns + (j + 1) % columns;
                long at = i * columns + j;
                double around_u = a[up] + a[down] + a[left] + a[right] - 4 * a[at];
                double around_v = b[up] + b[down] + b[left] + b[right] - 4 * b[at];
                double made = a[at] * b[at] * b[at];
                new_u[at] = a[at] + 0.16 * around_u - made + feed * (1 - a[at]);
                new_v[at] = b[at] + 0.08 * around_v + made - (feed + kill) * b[at];
            }
        free(a);
        free(b);
        a = new_u;
        b = new_v;
    }
    double amount = squares(count, b);
    free(a);
    free(b);
    return amount;
}

/* Copies a grid into one with a margin of one cell, which holds the cells of the other side. */
static void widen(long rows, long columns, const double *restrict a, double *restrict wide)
{
    for (long i = 0; i < rows + 2; i++) {
        const double *line = a + (i + rows - 1) % rows * columns;
        double *to = wide + i * (columns + 2);
        memcpy(to + 1, line, columns * sizeof *line);
        to[0] = line[columns - 1];
        to[columns + 1] = line[0];
    }
}

double reaction_gradient(long rows, long columns, const double *restrict u, long m, long n, const double *restrict v,
                         double feed, double kill, long steps, double *restrict u_bar, double *restrict v_bar,
                         double *restrict feed_bar, double *restrict kill_bar)
{
    long count = rows * columns, width = columns + 2, wide = (rows + 2) * width;
    double *path = malloc(2 * (steps + 1) * count * sizeof *path), in_feed = 0, in_kill = 0;
    double *restrict x = malloc(wide * sizeof *x), *restrict y = malloc(wide * sizeof *y);
    memcpy(path, u, count * sizeof *path);
    memcpy(path + count, v, count * sizeof *path);
    for (long step = 0; step < steps; step++) {
        const double *a = path + 2 * step * count;
        double *restrict new_u = path + 2 * (step + 1) * count, *restrict new_v = new_u + count;
        widen(rows, columns, a, x);
        widen(rows, columns, a + count, y);
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < columns; j++) {
                const double *p = x + (i + 1) * width + j + 1, *q = y + (i + 1) * width + j + 1;
                double made = *p * *q * *q;
                new_u[i * columns + j] = *p + 0.16 * (p[-width] + p[width] + p[-1] + p[1] - 4 * *p) - made
                                         + feed * (1 - *p);
                new_v[i * columns + j] = *q + 0.08 * (q[-width] + q[width] + q[-1] + q[1] - 4 * *q) + made
                                         - (feed + kill) * *q;
            }
    }
    const double *last = path + (2 * steps + 1) * count;
    double amount = squares(count, last);
    memset(u_bar, 0, count * sizeof *u_bar);
    for (long i = 0; i < count; i++)
        v_bar[i] = 2 * last[i];
    for (long step = steps - 1; step >= 0; step--) {
        const double *restrict a = path + 2 * step * count, *restrict b = a + count;
        widen(rows, columns, u_bar, x);
        widen(rows, columns, v_bar, y);
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < columns; j++) {
                const double *p = x + (i + 1) * width + j + 1, *q = y + (i + 1) * width + j + 1;
                long at = i * columns + j;
                double made_bar = *q - *p, vv = b[at] * b[at];
                in_feed += *p * (1 - a[at]) - *q * b[at];
                in_kill -= *q * b[at];
                u_bar[at] = *p * (1 - feed) + made_bar * vv
                            + 0.16 * (p[-width] + p[width] + p[-1] + p[1] - 4 * *p);
                v_bar[at] = *q * (1 - feed - kill) + 2 * made_bar * a[at] * b[at]
                            + 0.08 * (q[-width] + q[width] + q[-1] + q[1] - 4 * *q);
            }
    }
    *feed_bar = in_feed;
    *kill_bar = in_kill;
    free(path);
    free(x);
    free(y);
    return amount;
}

/* A step of shallow water: velocities, fluxes with a zero at each wall, and the height. */
static void step_water(long rows, long columns, double gravity, double drag, double dt, double *restrict h,
                       double *restrict u, double *restrict v, double *restrict flux_u, double *restrict flux_v)
{
    for (long i = 0; i < (rows - 1) * columns; i++)
        u[i] = (1 - drag) * u[i] - dt * gravity * (h[i + columns] - h[i]);
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns - 1; j++) {
            long at = i * (columns - 1) + j;
            v[at] = (1 - drag) * v[at] - dt * gravity * (h[i * columns + j + 1] - h[i * columns + j]);
        }
    for (long i = 0; i < (rows - 1) * columns; i++)
        flux_u[i + columns] = u[i] * (u[i] > 0 ? h[i] : h[i + columns]);
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns - 1; j++) {
            long at = i * (columns - 1) + j;
            flux_v[i * (columns + 1) + j + 1] = v[at] * (v[at] > 0 ? h[i * columns + j] : h[i * columns + j + 1]);
        }
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            const double *fu = flux_u + i * columns + j, *fv = flux_v + i * (columns + 1) + j;
            h[i * columns + j] -= dt * (fu[columns] - fu[0] + fv[1] - fv[0]);
        }
}

double shallow(long rows, long columns, const double *start, double gravity, double drag, double dt, long steps)
{
    long n = rows * columns;
    double *h = copy(n, start), *u = calloc(n, sizeof *u), *v = calloc(n, sizeof *v);
    for (long step = 0; step < steps; step++) {
        double *flux_u = calloc((rows + 1) * columns, sizeof *u), *flux_v = calloc(rows * (columns + 1), sizeof *v);
        step_water(rows, columns, gravity, drag, dt, h, u, v, flux_u, flux_v);
        free(flux_u);
        free(flux_v);
    }
    double energy = squares(rows * columns, h);
    free(h);
    free(u);
    free(v);
    return energy;
}

double shallow_gradient(long rows, long columns, const double *restrict start, double gravity, double drag, double dt,
                        long steps, double *restrict h_bar, double *restrict gravity_bar, double *restrict drag_bar)
{
    long count = rows * columns;
    double in_gravity = 0, in_drag = 0, pull = dt * gravity, keep = 1 - drag;
    double *path = calloc(3 * (steps + 1) * count, sizeof *path);       /* of each step: h, u, v */
    double *restrict flux_u = calloc(count + columns, sizeof *flux_u);
    double *restrict flux_v = calloc(count + rows, sizeof *flux_v);
    double *restrict u_bar = calloc(count, sizeof *u_bar), *restrict v_bar = calloc(count, sizeof *v_bar);
    double *restrict b = malloc(count * sizeof *b);
    memcpy(path, start, count * sizeof *path);
    for (long step = 0; step < steps; step++) {
        double *state = path + 3 * (step + 1) * count;
        memcpy(state, state - 3 * count, 3 * count * sizeof *state);
        step_water(rows, columns, gravity, drag, dt, state, state + count, state + 2 * count, flux_u, flux_v);
    }
    const double *last = path + 3 * steps * count;
    double energy = squares(count, last);
    for (long i = 0; i < count; i++)
        h_bar[i] = 2 * last[i];
    for (long step = steps - 1; step >= 0; step--) {
        const double *restrict h = path + 3 * step * count, *restrict u0 = h + count, *restrict v0 = u0 + count;
        const double *restrict u = v0 + 2 * count, *restrict v = u + count;
        memcpy(b, h_bar, count * sizeof *b);
        for (long i = 0; i < count - columns; i++) {
            double flux_bar = dt * (b[i + columns] - b[i]);
            double bar = u_bar[i] + flux_bar * (u[i] > 0 ? h[i] : h[i + columns]);
            double before = u[i] > 0 ? flux_bar * u[i] : 0, after = flux_bar * u[i] - before;
            in_drag -= bar * u0[i];
            in_gravity -= bar * (h[i + columns] - h[i]);
            u_bar[i] = keep * bar;
            h_bar[i] += before + pull * bar;
            h_bar[i + columns] += after - pull * bar;
        }
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < columns - 1; j++) {
                long at = i * columns + j, k = i * (columns - 1) + j;
                double flux_bar = dt * (b[at + 1] - b[at]);
                double bar = v_bar[k] + flux_bar * (v[k] > 0 ? h[at] : h[at + 1]);
                double before = v[k] > 0 ? flux_bar * v[k] : 0, after = flux_bar * v[k] - before;
                in_drag -= bar * v0[k];
                in_gravity -= bar * (h[at + 1] - h[at]);
                v_bar[k] = keep * bar;
                h_bar[at] += before + pull * bar;
                h_bar[at + 1] += after - pull * bar;
            }
    }
    *gravity_bar = dt * in_gravity;
    *drag_bar = in_drag;
    free(path);
    free(flux_u);
    free(flux_v);
    free(u_bar);
    free(v_bar);
    free(b);
    return energy;
}
