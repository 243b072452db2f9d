/* Signal processing, loop by loop as in bench/ordinary/signals.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double fir(long n, const double *x, long m, const double *h)
{
    double energy = 0;
    for (long i = m - 1; i < n; i++) {
        double y = 0;
        for (long k = 0; k < m; k++)
            y += h[k] * x[i - k];
        energy += y * y;
    }
    return energy;
}

double fir_gradient(long n, const double *restrict x, long m, const double *restrict h, double *restrict x_bar,
                    double *restrict h_bar)
{
    double energy = 0;
    memset(x_bar, 0, n * sizeof *x_bar);
    memset(h_bar, 0, m * sizeof *h_bar);
    for (long i = m - 1; i < n; i++) {
        double y = 0;
        for (long k = 0; k < m; k++)
            y += h[k] * x[i - k];
        energy += y * y;
        double y_bar = 2 * y;
        for (long k = 0; k < m; k++) {
            h_bar[k] += y_bar * x[i - k];
            x_bar[i - k] += y_bar * h[k];
        }
    }
    return energy;
}

double biquad(long n, const double *x, double b0, double b1, double b2, double a1, double a2)
{
    double z1 = 0, z2 = 0, energy = 0;
    for (long i = 0; i < n; i++) {
        double y = b0 * x[i] + z1;
        z1 = b1 * x[i] - a1 * y + z2;
        z2 = b2 * x[i] - a2 * y;
        energy += y * y;
    }
    return energy;
}

double biquad_gradient(long n, const double *restrict x, double b0, double b1, double b2, double a1, double a2,
                       double *restrict x_bar, double *restrict b0_bar, double *restrict b1_bar,
                       double *restrict b2_bar, double *restrict a1_bar, double *restrict a2_bar)
{
    double z1 = 0, z2 = 0, energy = 0, *restrict y = malloc(n * sizeof *y);
    for (long i = 0; i < n; i++) {
        y[i] = b0 * x[i] + z1;
        z1 = b1 * x[i] - a1 * y[i] + z2;
        z2 = b2 * x[i] - a2 * y[i];
        energy += y[i] * y[i];
    }
    double z1_bar = 0, z2_bar = 0, s0 = 0, s1 = 0, s2 = 0, t1 = 0, t2 = 0;
    for (long i = n - 1; i >= 0; i--) {
        double y_bar = 2 * y[i] - a2 * z2_bar - a1 * z1_bar, next = z1_bar;
        s2 += x[i] * z2_bar;
        t2 -= y[i] * z2_bar;
        s1 += x[i] * z1_bar;
        t1 -= y[i] * z1_bar;
        s0 += x[i] * y_bar;
        x_bar[i] = b2 * z2_bar + b1 * z1_bar + b0 * y_bar;
        z1_bar = y_bar;
        z2_bar = next;
    }
    *b0_bar = s0, *b1_bar = s1, *b2_bar = s2, *a1_bar = t1, *a2_bar = t2;
    free(y);
    return energy;
}

double fourier(long n, const double *x, long count)
{
    double total = 0;
    for (long k = 0; k < count; k++) {
        double re = 0, im = 0;
        for (long i = 0; i < n; i++) {
            double angle = -2 * M_PI * k * i / n;
            re += x[i] * cos(angle);
            im += x[i] * sin(angle);
        }
        total += sqrt(re * re + im * im + 1e-12);
    }
    return total;
}

double fourier_gradient(long n, const double *restrict x, long count, double *restrict x_bar)
{
    double total = 0, *c = malloc(n * sizeof *c), *s = malloc(n * sizeof *s);
    memset(x_bar, 0, n * sizeof *x_bar);
    for (long k = 0; k < count; k++) {
        double re = 0, im = 0;
        for (long i = 0; i < n; i++) {
            double angle = -2 * M_PI * k * i / n;
            c[i] = cos(angle);
            s[i] = sin(angle);
            re += x[i] * c[i];
            im += x[i] * s[i];
        }
        double size = sqrt(re * re + im * im + 1e-12), re_bar = re / size, im_bar = im / size;
        total += size;
        for (long i = 0; i < n; i++)
            x_bar[i] += re_bar * c[i] + im_bar * s[i];
    }
    free(c);
    free(s);
    return total;
}

double envelope(long n, const double *x, double attack, double release)
{
    double level = 0, total = 0;
    for (long i = 0; i < n; i++) {
        double size = fabs(x[i]);
        if (size > level)
            level = attack * level + (1 - attack) * size;
        else
            level = release * level + (1 - release) * size;
        total += level;
    }
    return total / n;
}

double envelope_gradient(long n, const double *restrict x, double attack, double release, double *restrict x_bar,
                         double *restrict attack_bar, double *restrict release_bar)
{
    double level = 0, total = 0, *restrict before = malloc(n * sizeof *before);
    for (long i = 0; i < n; i++) {
        double size = fabs(x[i]);
        before[i] = level;
        double rate = size > level ? attack : release;
        level = rate * level + (1 - rate) * size;
        total += level;
    }
    double level_bar = 0, a = 0, r = 0;
    for (long i = n - 1; i >= 0; i--) {
        double size = fabs(x[i]);
        level_bar += 1.0 / n;
        double rate;
        if (size > before[i]) {
            rate = attack;
            a += (before[i] - size) * level_bar;
        } else {
            rate = release;
            r += (before[i] - size) * level_bar;
        }
        x_bar[i] = copysign((1 - rate) * level_bar, x[i]);
        level_bar *= rate;
    }
    *attack_bar = a;
    *release_bar = r;
    free(before);
    return total / n;
}
