/* The energy of n bodies, softened; positions and velocities are n times 3.  The adjoint goes over the pairs once. */
#include <math.h>

static const double SOFT = 1e-3;

double nbody(long n, const double *x, const double *v, const double *m)
{
    double energy = 0;
#pragma omp parallel for reduction(+ : energy) schedule(dynamic, 16)
    for (long i = 0; i < n; i++) {
        energy += 0.5 * m[i] * (v[3 * i] * v[3 * i] + v[3 * i + 1] * v[3 * i + 1] + v[3 * i + 2] * v[3 * i + 2]);
        double pull = 0;
        for (long j = 0; j < i; j++) {
            double dx = x[3 * i] - x[3 * j], dy = x[3 * i + 1] - x[3 * j + 1], dz = x[3 * i + 2] - x[3 * j + 2];
            pull += m[j] / sqrt(dx * dx + dy * dy + dz * dz + SOFT);
        }
        energy -= m[i] * pull;
    }
    return energy;
}

double nbody_gradient(long n, const double *restrict x, const double *restrict v, const double *restrict m,
                      double *restrict x_bar, double *restrict v_bar)
{
    double energy = 0;
    for (long i = 0; i < 3 * n; i++) {
        x_bar[i] = 0;
        v_bar[i] = m[i / 3] * v[i];
    }
    for (long i = 0; i < n; i++) {
        energy += 0.5 * m[i] * (v[3 * i] * v[3 * i] + v[3 * i + 1] * v[3 * i + 1] + v[3 * i + 2] * v[3 * i + 2]);
        double pull = 0, fx = 0, fy = 0, fz = 0;
        for (long j = 0; j < i; j++) {
            double dx = x[3 * i] - x[3 * j], dy = x[3 * i + 1] - x[3 * j + 1], dz = x[3 * i + 2] - x[3 * j + 2];
            double square = dx * dx + dy * dy + dz * dz + SOFT, term = m[j] / sqrt(square);
            double force = m[i] * term / square;
            pull += term;
            fx += force * dx;
            fy += force * dy;
            fz += force * dz;
            x_bar[3 * j] -= force * dx;
            x_bar[3 * j + 1] -= force * dy;
            x_bar[3 * j + 2] -= force * dz;
        }
        x_bar[3 * i] += fx;
        x_bar[3 * i + 1] += fy;
        x_bar[3 * i + 2] += fz;
        energy -= m[i] * pull;
    }
    return energy;
}
