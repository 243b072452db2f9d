/* Images, loop by loop as in bench/ordinary/images.py, and adjoints by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

double convolve(long rows, long columns, const double *image, long m, long n, const double *kernel)
{
    double energy = 0;
    for (long i = 0; i < rows - m + 1; i++)
        for (long j = 0; j < columns - n + 1; j++) {
            double s = 0;
            for (long k = 0; k < m; k++)
                for (long c = 0; c < n; c++)
                    s += kernel[k * n + c] * image[(i + k) * columns + j + c];
            energy += s * s;
        }
    return energy;
}

double convolve_gradient(long rows, long columns, const double *restrict image, long m, long n,
                         const double *restrict kernel, double *restrict image_bar, double *restrict kernel_bar)
{
    double energy = 0, *restrict out = malloc(columns * sizeof *out);
    memset(image_bar, 0, rows * columns * sizeof *image_bar);
    memset(kernel_bar, 0, m * n * sizeof *kernel_bar);
    long width = columns - n + 1;
    for (long i = 0; i < rows - m + 1; i++) {
        memset(out, 0, width * sizeof *out);
        for (long k = 0; k < m; k++)
            for (long c = 0; c < n; c++) {
                double w = kernel[k * n + c];
                const double *line = image + (i + k) * columns + c;
                for (long j = 0; j < width; j++)
                    out[j] += w * line[j];
            }
        for (long j = 0; j < width; j++) {
            energy += out[j] * out[j];
            out[j] *= 2;
        }
        for (long k = 0; k < m; k++)
            for (long c = 0; c < n; c++) {
                double w = kernel[k * n + c], s = 0;
                const double *line = image + (i + k) * columns + c;
                double *line_bar = image_bar + (i + k) * columns + c;
                for (long j = 0; j < width; j++) {
                    s += out[j] * line[j];
                    line_bar[j] += out[j] * w;
                }
                kernel_bar[k * n + c] += s;
            }
    }
    free(out);
    return energy;
}

double edges(long rows, long columns, const double *image, double threshold)
{
    double total = 0;
    for (long i = 1; i < rows - 1; i++)
        for (long j = 1; j < columns - 1; j++) {
            const double *a = image + (i - 1) * columns + j, *b = a + columns, *c = b + columns;
            double gx = a[1] + 2 * b[1] + c[1] - a[-1] - 2 * b[-1] - c[-1];
            double gy = c[-1] + 2 * c[0] + c[1] - a[-1] - 2 * a[0] - a[1];
            double slope = sqrt(gx * gx + gy * gy);
            if (slope > threshold)
                total += slope;
        }
    return total;
}

double edges_gradient(long rows, long columns, const double *restrict image, double threshold,
                      double *restrict image_bar)
{
    double total = 0;
    memset(image_bar, 0, rows * columns * sizeof *image_bar);
    for (long i = 1; i < rows - 1; i++)
        for (long j = 1; j < columns - 1; j++) {
            const double *a = image + (i - 1) * columns + j, *b = a + columns, *c = b + columns;
            double gx = a[1] + 2 * b[1] + c[1] - a[-1] - 2 * b[-1] - c[-1];
            double gy = c[-1] + 2 * c[0] + c[1] - a[-1] - 2 * a[0] - a[1];
            double slope = sqrt(gx * gx + gy * gy);
            if (slope > threshold) {
                total += slope;
                double x = gx / slope, y = gy / slope;
                double *p = image_bar + (i - 1) * columns + j, *q = p + columns, *r = q + columns;
                p[-1] -= x + y;
                p[0] -= 2 * y;
                p[1] += x - y;
                q[-1] -= 2 * x;
                q[1] += 2 * x;
                r[-1] += y - x;
                r[0] += 2 * y;
                r[1] += x + y;
            }
        }
    return total;
}

static long least(long a, long b)
{
    return a < b ? a : b;
}

static long most(long a, long b)
{
    return a > b ? a : b;
}

double bilateral(long rows, long columns, const double *image, double spread, double contrast, long radius)
{
    double near = 0.5 / (spread * spread), alike = 0.5 / (contrast * contrast), energy = 0;
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            double top = 0, bottom = 0;
            for (long k = most(0, i - radius); k < least(rows, i + radius + 1); k++)
                for (long c = most(0, j - radius); c < least(columns, j + radius + 1); c++) {
                    double v = image[k * columns + c], difference = v - image[i * columns + j];
                    double weight = exp(-near * ((k - i) * (k - i) + (c - j) * (c - j))
                                        - alike * difference * difference);
                    top += weight * v;
                    bottom += weight;
                }
            double out = top / bottom;
            energy += out * out;
        }
    return energy;
}

double bilateral_gradient(long rows, long columns, const double *restrict image, double spread, double contrast,
                          long radius, double *restrict image_bar, double *restrict spread_bar,
                          double *restrict contrast_bar)
{
    double near = 0.5 / (spread * spread), alike = 0.5 / (contrast * contrast), energy = 0;
    double near_bar = 0, alike_bar = 0, *weights = malloc((2 * radius + 1) * (2 * radius + 1) * sizeof *weights);
    memset(image_bar, 0, rows * columns * sizeof *image_bar);
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            double top = 0, bottom = 0, centre = image[i * columns + j], centre_bar = 0, *w = weights;
            long k0 = most(0, i - radius), k1 = least(rows, i + radius + 1);
            long c0 = most(0, j - radius), c1 = least(columns, j + radius + 1);
            for (long k = k0; k < k1; k++)
                for (long c = c0; c < c1; c++) {
                    double v = image[k * columns + c], difference = v - centre;
                    double weight = exp(-near * ((k - i) * (k - i) + (c - j) * (c - j))
                                        - alike * difference * difference);
                    *w++ = weight;
                    top += weight * v;
                    bottom += weight;
                }
            double out = top / bottom, top_bar = 2 * out / bottom;
            energy += out * out;
            w = weights;
            for (long k = k0; k < k1; k++)
                for (long c = c0; c < c1; c++) {
                    double v = image[k * columns + c], difference = v - centre, direct = *w++ * top_bar;
                    double power_bar = direct * (v - out), difference_bar = -2 * alike * difference * power_bar;
                    near_bar -= ((k - i) * (k - i) + (c - j) * (c - j)) * power_bar;
                    alike_bar -= difference * difference * power_bar;
                    image_bar[k * columns + c] += direct + difference_bar;
                    centre_bar -= difference_bar;
                }
            image_bar[i * columns + j] += centre_bar;
        }
    *spread_bar = -near_bar / (spread * spread * spread);
    *contrast_bar = -alike_bar / (contrast * contrast * contrast);
    free(weights);
    return energy;
}

static void descend(long rows, long columns, const double *restrict noisy, double weight, double rate,
                    double *restrict px, double *restrict py, double *restrict u)
{
    for (long i = 0; i < rows - 1; i++)
        for (long j = 0; j < columns - 1; j++) {
            long at = i * columns + j;
            double dx = u[at + 1] - u[at], dy = u[at + columns] - u[at], size = sqrt(dx * dx + dy * dy + 1e-3);
            px[at] = dx / size;
            py[at] = dy / size;
        }
    for (long i = 1; i < rows - 1; i++)
        for (long j = 1; j < columns - 1; j++) {
            long at = i * columns + j;
            double divergence = px[at] - px[at - 1] + py[at] - py[at - columns];
            u[at] += rate * (weight * divergence - (u[at] - noisy[at]));
        }
}

double denoise(long rows, long columns, const double *noisy, double weight, double rate, long steps)
{
    long n = rows * columns;
    double energy = 0, *u = malloc(n * sizeof *u), *px = calloc(n, sizeof *px), *py = calloc(n, sizeof *py);
    memcpy(u, noisy, n * sizeof *u);
    for (long step = 0; step < steps; step++)
        descend(rows, columns, noisy, weight, rate, px, py, u);
    for (long i = 0; i < n; i++)
        energy += u[i] * u[i];
    free(u);
    free(px);
    free(py);
    return energy;
}

double denoise_gradient(long rows, long columns, const double *restrict noisy, double weight, double rate, long steps,
                        double *restrict noisy_bar, double *restrict weight_bar)
{
    long n = rows * columns;
    double energy = 0, *u = malloc(n * sizeof *u), *before = malloc(steps * n * sizeof *before), in_weight = 0;
    double *restrict px = calloc(n, sizeof *px), *restrict py = calloc(n, sizeof *py);
    double *restrict u_bar = malloc(n * sizeof *u_bar), *restrict bar = calloc(n, sizeof *bar);
    memcpy(u, noisy, n * sizeof *u);
    for (long step = 0; step < steps; step++) {
        memcpy(before + step * n, u, n * sizeof *u);
        descend(rows, columns, noisy, weight, rate, px, py, u);
    }
    for (long i = 0; i < n; i++) {
        energy += u[i] * u[i];
        u_bar[i] = 2 * u[i];
    }
    memset(noisy_bar, 0, n * sizeof *noisy_bar);
    for (long step = steps - 1; step >= 0; step--) {
        const double *restrict old = before + step * n;
        for (long i = 1; i < rows - 1; i++)             /* bar: of the divergence; zero at the border */
            for (long j = 1; j < columns - 1; j++) {
                long at = i * columns + j;
                bar[at] = rate * weight * u_bar[at];
                noisy_bar[at] += rate * u_bar[at];
                u_bar[at] *= 1 - rate;
            }
        for (long i = 0; i < rows - 1; i++)
            for (long j = 0; j < columns - 1; j++) {
                long at = i * columns + j;
                double dx = old[at + 1] - old[at], dy = old[at + columns] - old[at];
                double over = 1 / sqrt(dx * dx + dy * dy + 1e-3), x = dx * over, y = dy * over;
                double x_bar = bar[at] - bar[at + 1], y_bar = bar[at] - bar[at + columns];
                double along = x * x_bar + y * y_bar;
                double dx_bar = (x_bar - x * along) * over, dy_bar = (y_bar - y * along) * over;
                in_weight += along;                     /* the divergence times its adjoint, summed by parts */
                u_bar[at] -= dx_bar + dy_bar;
                u_bar[at + 1] += dx_bar;
                u_bar[at + columns] += dy_bar;
            }
    }
    for (long i = 0; i < n; i++)
        noisy_bar[i] += u_bar[i];
    *weight_bar = in_weight / weight;
    free(u);
    free(before);
    free(px);
    free(py);
    free(u_bar);
    free(bar);
    return energy;
}
