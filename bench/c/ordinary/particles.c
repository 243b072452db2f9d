/* Particles, loop by loop as in bench/ordinary/particles.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double lennard_jones(long n, long three, const double *p, double epsilon, double sigma, double cutoff)
{
    double energy = 0;
    for (long i = 0; i < n; i++)
        for (long j = i + 1; j < n; j++) {
            double dx = p[3 * i] - p[3 * j];
            double dy = p[3 * i + 1] - p[3 * j + 1];
            double dz = p[3 * i + 2] - p[3 * j + 2];
            double r = sqrt(dx * dx + dy * dy + dz * dz);
            if (r < cutoff) {
                double q = sigma / r, q3 = q * q * q, s = q3 * q3;
                energy += 4 * epsilon * (s * s - s);
            }
        }
    return energy;
}

double lennard_jones_gradient(long n, long three, const double *restrict p, double epsilon, double sigma,
                              double cutoff, double *restrict p_bar, double *restrict epsilon_bar,
                              double *restrict sigma_bar)
{
    double sum = 0, slope = 0;                  /* of s^2 - s, and of its derivative in sigma times sigma / 6 */
    memset(p_bar, 0, 3 * n * sizeof *p_bar);
    for (long i = 0; i < n; i++) {
        double x = p[3 * i], y = p[3 * i + 1], z = p[3 * i + 2], gx = 0, gy = 0, gz = 0;
        for (long j = i + 1; j < n; j++) {
            double dx = x - p[3 * j];
            double dy = y - p[3 * j + 1];
            double dz = z - p[3 * j + 2];
            double r = sqrt(dx * dx + dy * dy + dz * dz);
            if (r < cutoff) {
                double q = sigma / r, q3 = q * q * q, s = q3 * q3;
                double t = 2 * s * s - s, g = -24 * epsilon * t / (r * r);
                sum += s * s - s;
                slope += t;
                gx += g * dx;
                gy += g * dy;
                gz += g * dz;
                p_bar[3 * j] -= g * dx;
                p_bar[3 * j + 1] -= g * dy;
                p_bar[3 * j + 2] -= g * dz;
            }
        }
        p_bar[3 * i] += gx;
        p_bar[3 * i + 1] += gy;
        p_bar[3 * i + 2] += gz;
    }
    *epsilon_bar = 4 * sum;
    *sigma_bar = 24 * epsilon * slope / sigma;
    return 4 * epsilon * sum;
}

double springs(long n, long two, const double *p, long m, long ends, const long *edges, long rests,
               const double *rest, double stiffness)
{
    double energy = 0;
    for (long e = 0; e < m; e++) {
        long a = edges[2 * e], b = edges[2 * e + 1];
        double dx = p[2 * a] - p[2 * b];
        double dy = p[2 * a + 1] - p[2 * b + 1];
        double stretch = sqrt(dx * dx + dy * dy) - rest[e];
        energy += 0.5 * stiffness * stretch * stretch;
    }
    return energy;
}

double springs_gradient(long n, long two, const double *restrict p, long m, long ends, const long *restrict edges,
                        long rests, const double *restrict rest, double stiffness, double *restrict p_bar,
                        double *restrict rest_bar, double *restrict stiffness_bar)
{
    double sum = 0;
    memset(p_bar, 0, 2 * n * sizeof *p_bar);
    for (long e = 0; e < m; e++) {
        long a = edges[2 * e], b = edges[2 * e + 1];
        double dx = p[2 * a] - p[2 * b];
        double dy = p[2 * a + 1] - p[2 * b + 1];
        double r = sqrt(dx * dx + dy * dy), stretch = r - rest[e], g = stiffness * stretch, w = g / r;
        sum += 0.5 * stretch * stretch;
        rest_bar[e] = -g;
        p_bar[2 * a] += w * dx;
        p_bar[2 * a + 1] += w * dy;
        p_bar[2 * b] -= w * dx;
        p_bar[2 * b + 1] -= w * dy;
    }
    *stiffness_bar = sum;
    return stiffness * sum;
}

/* The field of a density, which is replaced by its difference to the mean. */
static void field_of(long cells, double *restrict density, double *restrict field)
{
    double mean = 0;
    for (long i = 0; i < cells; i++)
        mean += density[i];
    mean /= cells;
    for (long i = 0; i < cells; i++)
        density[i] -= mean;
    field[0] = 0;
    for (long i = 1; i < cells; i++)
        field[i] = field[i - 1] + density[i] / cells;
}

double particle_in_cell(long n, const double *x, long m, const double *v, double charge, double dt, long cells)
{
    double *density = calloc(cells, sizeof *density), *field = malloc(cells * sizeof *field), energy = 0;
    for (long p = 0; p < n; p++) {
        double s = x[p] * cells;
        long i = (long)s;
        double f = s - i;
        density[i] += charge * (1 - f);
        density[(i + 1) % cells] += charge * f;
    }
    field_of(cells, density, field);
    for (long p = 0; p < n; p++) {
        double s = x[p] * cells;
        long i = (long)s;
        double f = s - i;
        double u = v[p] + dt * ((1 - f) * field[i] + f * field[(i + 1) % cells]);
        energy += 0.5 * u * u;
    }
    free(density);
    free(field);
    return energy;
}

double particle_in_cell_gradient(long n, const double *restrict x, long m, const double *restrict v, double charge,
                                 double dt, long cells, double *restrict x_bar, double *restrict v_bar,
                                 double *restrict charge_bar, double *restrict dt_bar)
{
    double *restrict density = calloc(cells + 1, sizeof *density), *restrict field = malloc((cells + 1) * sizeof *field);
    double *restrict bar = calloc(cells + 1, sizeof *bar), energy = 0, dt_sum = 0, mean = 0, charge_sum = 0;
    for (long p = 0; p < n; p++) {              /* one more cell stands for the first */
        double s = x[p] * cells;
        long i = (long)s;
        double f = s - i;
        density[i] += charge * (1 - f);
        density[i + 1] += charge * f;
    }
    density[0] += density[cells];
    field_of(cells, density, field);
    field[cells] = field[0];
    for (long p = 0; p < n; p++) {
        double s = x[p] * cells;
        long i = (long)s;
        double f = s - i, at = (1 - f) * field[i] + f * field[i + 1];
        double u = v[p] + dt * at, g = dt * u;
        energy += 0.5 * u * u;
        v_bar[p] = u;
        dt_sum += u * at;
        x_bar[p] = g * (field[i + 1] - field[i]) * cells;
        bar[i] += (1 - f) * g;
        bar[i + 1] += f * g;
    }
    bar[0] += bar[cells];
    double sum = 0;
    for (long i = cells - 1; i > 0; i--) {
        sum += bar[i];
        bar[i] = sum / cells;
        mean += bar[i];
    }
    bar[0] = 0;
    mean /= cells;
    for (long i = 0; i < cells; i++)
        bar[i] -= mean;
    bar[cells] = bar[0];
    for (long p = 0; p < n; p++) {
        double s = x[p] * cells;
        long i = (long)s;
        double f = s - i;
        charge_sum += (1 - f) * bar[i] + f * bar[i + 1];
        x_bar[p] += charge * (bar[i + 1] - bar[i]) * cells;
    }
    *charge_bar = charge_sum;
    *dt_bar = dt_sum;
    free(density);
    free(field);
    free(bar);
    return energy;
}

double leapfrog(long n, long three, const double *p0, long n1, long three1, const double *v0, long n2,
                const double *mass, double dt, long steps)
{
    size_t size = 3 * n * sizeof(double);
    double *p = malloc(size), *v = malloc(size), *a = malloc(size), total = 0;
    memcpy(p, p0, size);
    memcpy(v, v0, size);
    for (long step = 0; step < steps; step++) {
        memset(a, 0, size);
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++)
                if (i != j) {
                    double dx = p[3 * j] - p[3 * i];
                    double dy = p[3 * j + 1] - p[3 * i + 1];
                    double dz = p[3 * j + 2] - p[3 * i + 2];
                    double r2 = dx * dx + dy * dy + dz * dz + 0.01;
                    double w = mass[j] / (r2 * sqrt(r2));
                    a[3 * i] += w * dx;
                    a[3 * i + 1] += w * dy;
                    a[3 * i + 2] += w * dz;
                }
        for (long k = 0; k < 3 * n; k++)
            v[k] += dt * a[k];
        for (long k = 0; k < 3 * n; k++)
            p[k] += dt * v[k];
    }
    for (long i = 0; i < n; i++)
        for (long k = 0; k < 3; k++)
            total += mass[i] * (0.5 * v[3 * i + k] * v[3 * i + k] + p[3 * i + k] * p[3 * i + k]);
    free(p);
    free(v);
    free(a);
    return total;
}

/* All positions are kept, and of each pair the powers of its distance. */
double leapfrog_gradient(long n, long three, const double *restrict p0, long n1, long three1,
                         const double *restrict v0, long n2, const double *restrict mass, double dt, long steps,
                         double *restrict p_bar, double *restrict v_bar, double *restrict mass_bar)
{
    size_t size = 3 * n * sizeof(double);
    double *restrict kept = malloc((steps + 1) * size), *restrict v = malloc(size), total = 0;
    double *restrict over2 = malloc(steps * n * n * sizeof *over2), *restrict over3 = malloc(steps * n * n * sizeof *over3);
    memcpy(kept, p0, size);
    memcpy(v, v0, size);
    for (long step = 0; step < steps; step++) {
        const double *p = kept + 3 * n * step;
        double *next = kept + 3 * n * (step + 1);
        for (long i = 0; i < n; i++) {
            double ax = 0, ay = 0, az = 0, *row2 = over2 + (step * n + i) * n, *row3 = over3 + (step * n + i) * n;
            for (long j = 0; j < n; j++)
                if (i != j) {
                    double dx = p[3 * j] - p[3 * i];
                    double dy = p[3 * j + 1] - p[3 * i + 1];
                    double dz = p[3 * j + 2] - p[3 * i + 2];
                    double r2 = dx * dx + dy * dy + dz * dz + 0.01, one = 1 / r2;
                    row2[j] = one;
                    row3[j] = one * one * sqrt(r2);
                    double w = mass[j] * row3[j];
                    ax += w * dx;
                    ay += w * dy;
                    az += w * dz;
                }
            v[3 * i] += dt * ax;
            v[3 * i + 1] += dt * ay;
            v[3 * i + 2] += dt * az;
        }
        for (long k = 0; k < 3 * n; k++)
            next[k] = p[k] + dt * v[k];
    }
    const double *last = kept + 3 * n * steps;
    for (long i = 0; i < n; i++) {
        double sum = 0;
        for (long k = 3 * i; k < 3 * i + 3; k++) {
            sum += 0.5 * v[k] * v[k] + last[k] * last[k];
            v_bar[k] = mass[i] * v[k];
            p_bar[k] = 2 * mass[i] * last[k];
        }
        mass_bar[i] = sum;
        total += mass[i] * sum;
    }
    for (long step = steps - 1; step >= 0; step--) {
        const double *p = kept + 3 * n * step;
        for (long k = 0; k < 3 * n; k++)
            v_bar[k] += dt * p_bar[k];
        for (long i = 0; i < n; i++) {
            const double *row2 = over2 + (step * n + i) * n, *row3 = over3 + (step * n + i) * n;
            double gx = dt * v_bar[3 * i], gy = dt * v_bar[3 * i + 1], gz = dt * v_bar[3 * i + 2];
            double sx = 0, sy = 0, sz = 0;
            for (long j = 0; j < n; j++)
                if (i != j) {
                    double dx = p[3 * j] - p[3 * i];
                    double dy = p[3 * j + 1] - p[3 * i + 1];
                    double dz = p[3 * j + 2] - p[3 * i + 2];
                    double along = row3[j] * (gx * dx + gy * dy + gz * dz);
                    double w = mass[j] * row3[j], c = 3 * mass[j] * along * row2[j];
                    double ux = w * gx - c * dx, uy = w * gy - c * dy, uz = w * gz - c * dz;
                    mass_bar[j] += along;
                    sx += ux;
                    sy += uy;
                    sz += uz;
                    p_bar[3 * j] += ux;
                    p_bar[3 * j + 1] += uy;
                    p_bar[3 * j + 2] += uz;
                }
            p_bar[3 * i] -= sx;
            p_bar[3 * i + 1] -= sy;
            p_bar[3 * i + 2] -= sz;
        }
    }
    free(kept);
    free(v);
    free(over2);
    free(over3);
    return total;
}

double smoothed_density(long n, const float *x, long n1, const float *y, long n2, const float *z, double reach)
{
    float *density = calloc(n, sizeof *density), h2 = reach * reach, total = 0;
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            float dx = x[i] - x[j], dy = y[i] - y[j], dz = z[i] - z[j];
            float r2 = dx * dx + dy * dy + dz * dz;
            if (r2 < h2) {
                float c = h2 - r2;
                density[i] += c * c * c;
            }
        }
    for (long i = 0; i < n; i++)
        total += logf(density[i]);
    free(density);
    return total;
}

double smoothed_density_gradient(long n, const float *restrict x, long n1, const float *restrict y, long n2,
                                 const float *restrict z, double reach, float *restrict x_bar,
                                 float *restrict y_bar, float *restrict z_bar)
{
    float *restrict over = malloc(n * sizeof *over), h2 = reach * reach, total = 0;
    for (long i = 0; i < n; i++) {
        float density = 0;
        for (long j = 0; j < n; j++) {
            float dx = x[i] - x[j], dy = y[i] - y[j], dz = z[i] - z[j];
            float c = h2 - (dx * dx + dy * dy + dz * dz);
            c = c > 0 ? c : 0;
            density += c * c * c;
        }
        over[i] = 1 / density;
        total += logf(density);
    }
    for (long i = 0; i < n; i++) {
        float gx = 0, gy = 0, gz = 0;
        for (long j = 0; j < n; j++) {
            float dx = x[i] - x[j], dy = y[i] - y[j], dz = z[i] - z[j];
            float c = h2 - (dx * dx + dy * dy + dz * dz);
            c = c > 0 ? c : 0;
            float g = -6 * c * c * (over[i] + over[j]);
            gx += g * dx;
            gy += g * dy;
            gz += g * dz;
        }
        x_bar[i] = gx;
        y_bar[i] = gy;
        z_bar[i] = gz;
    }
    free(over);
    return total;
}
