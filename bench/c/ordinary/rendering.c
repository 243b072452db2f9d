/* Rendering, loop by loop as in bench/ordinary/rendering.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

double sample(long rows, long columns, const double *image, long n, long two, const double *points)
{
    double total = 0;
    for (long p = 0; p < n; p++) {
        double y = least(most(points[2 * p], 0), rows - 1.001), x = least(most(points[2 * p + 1], 0), columns - 1.001);
        long i = (long)floor(y), j = (long)floor(x);
        double fy = y - i, fx = x - j;
        const double *at = image + i * columns + j;
        double upper = (1 - fx) * at[0] + fx * at[1], lower = (1 - fx) * at[columns] + fx * at[columns + 1];
        double value = (1 - fy) * upper + fy * lower;
        total += value * value;
    }
    return total;
}

double sample_gradient(long rows, long columns, const double *restrict image, long n, long two,
                       const double *restrict points, double *restrict image_bar, double *restrict points_bar)
{
    double total = 0;
    memset(image_bar, 0, rows * columns * sizeof *image_bar);
    for (long p = 0; p < n; p++) {
        double y = least(most(points[2 * p], 0), rows - 1.001), x = least(most(points[2 * p + 1], 0), columns - 1.001);
        long i = (long)floor(y), j = (long)floor(x);
        double fy = y - i, fx = x - j;
        const double *at = image + i * columns + j;
        double *bar = image_bar + i * columns + j;
        double upper = (1 - fx) * at[0] + fx * at[1], lower = (1 - fx) * at[columns] + fx * at[columns + 1];
        double value = (1 - fy) * upper + fy * lower;
        total += value * value;
        double upper_bar = 2 * value * (1 - fy), lower_bar = 2 * value * fy;
        bar[0] += upper_bar * (1 - fx);
        bar[1] += upper_bar * fx;
        bar[columns] += lower_bar * (1 - fx);
        bar[columns + 1] += lower_bar * fx;
        double fy_bar = 2 * value * (lower - upper);
        double fx_bar = upper_bar * (at[1] - at[0]) + lower_bar * (at[columns + 1] - at[columns]);
        points_bar[2 * p] = y == points[2 * p] ? fy_bar : 0;
        points_bar[2 * p + 1] = x == points[2 * p + 1] ? fx_bar : 0;
    }
    return total;
}

double turn(long rows, long columns, const double *image, long m, long n, const double *target, double angle,
            double dy, double dx)
{
    double cosine = cos(angle), sine = sin(angle), error = 0;
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            double u = i - rows / 2.0, v = j - columns / 2.0;
            double y = cosine * u - sine * v + rows / 2.0 + dy, x = sine * u + cosine * v + columns / 2.0 + dx;
            if (y >= 0 && x >= 0 && y < rows - 1 && x < columns - 1) {
                long k = (long)y, c = (long)x;
                double fy = y - k, fx = x - c;
                const double *at = image + k * columns + c;
                double value = (1 - fy) * ((1 - fx) * at[0] + fx * at[1])
                               + fy * ((1 - fx) * at[columns] + fx * at[columns + 1]);
                double difference = value - target[i * n + j];
                error += difference * difference;
            }
        }
    return error;
}

double turn_gradient(long rows, long columns, const double *restrict image, long m, long n,
                     const double *restrict target, double angle, double dy, double dx, double *restrict image_bar,
                     double *restrict angle_bar, double *restrict dy_bar, double *restrict dx_bar)
{
    double cosine = cos(angle), sine = sin(angle), error = 0, cosine_bar = 0, sine_bar = 0, in_y = 0, in_x = 0;
    memset(image_bar, 0, rows * columns * sizeof *image_bar);
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            double u = i - rows / 2.0, v = j - columns / 2.0;
            double y = cosine * u - sine * v + rows / 2.0 + dy, x = sine * u + cosine * v + columns / 2.0 + dx;
            if (y >= 0 && x >= 0 && y < rows - 1 && x < columns - 1) {
                long k = (long)y, c = (long)x;
                double fy = y - k, fx = x - c;
                const double *at = image + k * columns + c;
                double *bar = image_bar + k * columns + c;
                double upper = (1 - fx) * at[0] + fx * at[1], lower = (1 - fx) * at[columns] + fx * at[columns + 1];
                double difference = (1 - fy) * upper + fy * lower - target[i * n + j], value_bar = 2 * difference;
                error += difference * difference;
                double upper_bar = value_bar * (1 - fy), lower_bar = value_bar * fy;
                bar[0] += upper_bar * (1 - fx);
                bar[1] += upper_bar * fx;
                bar[columns] += lower_bar * (1 - fx);
                bar[columns + 1] += lower_bar * fx;
                double y_bar = value_bar * (lower - upper);
                double x_bar = upper_bar * (at[1] - at[0]) + lower_bar * (at[columns + 1] - at[columns]);
                in_y += y_bar;
                in_x += x_bar;
                cosine_bar += u * y_bar + v * x_bar;
                sine_bar += u * x_bar - v * y_bar;
            }
        }
    *angle_bar = cosine * sine_bar - sine * cosine_bar;
    *dy_bar = in_y;
    *dx_bar = in_x;
    return error;
}

double render(long n, long four, const double *spheres, long three, const double *light, long size)
{
    double energy = 0;
    for (long i = 0; i < size; i++)
        for (long j = 0; j < size; j++) {
            double dy = 2.0 * i / size - 1, dx = 2.0 * j / size - 1, length = sqrt(dx * dx + dy * dy + 1);
            double dz = 1 / length, nearest = 1e30;
            dx /= length;
            dy /= length;
            long hit = -1;
            for (long k = 0; k < n; k++) {
                const double *s = spheres + 4 * k;
                double x = s[0], y = s[1], z = s[2], r = s[3], along = dx * x + dy * y + dz * z;
                double inside = along * along - (x * x + y * y + z * z - r * r);
                if (inside > 0) {
                    double t = along - sqrt(inside);
                    if (t > 0 && t < nearest) {
                        nearest = t;
                        hit = k;
                    }
                }
            }
            if (hit >= 0) {
                const double *s = spheres + 4 * hit;
                double r = s[3], nx = (nearest * dx - s[0]) / r, ny = (nearest * dy - s[1]) / r;
                double nz = (nearest * dz - s[2]) / r, shade = nx * light[0] + ny * light[1] + nz * light[2];
                if (shade > 0)
                    energy += shade * shade;
            }
        }
    return energy;
}

double render_gradient(long n, long four, const double *restrict spheres, long three, const double *restrict light,
                       long size, double *restrict spheres_bar, double *restrict light_bar)
{
    double energy = 0, in_light[3] = {0};
    memset(spheres_bar, 0, 4 * n * sizeof *spheres_bar);
    for (long i = 0; i < size; i++)
        for (long j = 0; j < size; j++) {
            double dy = 2.0 * i / size - 1, dx = 2.0 * j / size - 1, length = sqrt(dx * dx + dy * dy + 1);
            double d[3] = {dx / length, dy / length, 1 / length}, nearest = 1e30, root = 0, middle = 0;
            long hit = -1;
            for (long k = 0; k < n; k++) {
                const double *s = spheres + 4 * k;
                double x = s[0], y = s[1], z = s[2], r = s[3], along = d[0] * x + d[1] * y + d[2] * z;
                double inside = along * along - (x * x + y * y + z * z - r * r);
                if (inside > 0) {
                    double half = sqrt(inside), t = along - half;
                    if (t > 0 && t < nearest) {
                        nearest = t;
                        hit = k;
                        root = half;
                        middle = along;
                    }
                }
            }
            if (hit < 0)
                continue;
            const double *s = spheres + 4 * hit;
            double *bar = spheres_bar + 4 * hit, r = s[3], normal[3], shade = 0;
            for (int k = 0; k < 3; k++) {
                normal[k] = (nearest * d[k] - s[k]) / r;
                shade += normal[k] * light[k];
            }
            if (shade <= 0)
                continue;
            energy += shade * shade;
            double shade_bar = 2 * shade, per_r = shade_bar / r, nearest_bar = 0;
            for (int k = 0; k < 3; k++) {
                in_light[k] += shade_bar * normal[k];
                nearest_bar += per_r * light[k] * d[k];
            }
            double inside_bar = -nearest_bar / (2 * root), along_bar = nearest_bar + 2 * middle * inside_bar;
            for (int k = 0; k < 3; k++)
                bar[k] += along_bar * d[k] - 2 * s[k] * inside_bar - per_r * light[k];
            bar[3] += 2 * r * inside_bar - per_r * shade;
        }
    memcpy(light_bar, in_light, sizeof in_light);
    return energy;
}
