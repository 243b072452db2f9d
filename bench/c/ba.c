/* ADBench's bundle adjustment: residuals and their sparse Jacobian by hand.
 *
 * camera: n rows of 11 (axis-angle rotation r, centre C, focal length f, principal point u, distortion k1 and k2);
 * point: m rows of 3; weight: p; feature: p rows of 2; seen: p rows of a camera's and a point's number.
 * residual: p rows of 2; penalty: p; block: p rows of 2 by 15 (camera, point, weight); slope: p. */
#include <math.h>

/* What projecting one point leaves. */
typedef struct {
    double v[3], turned[3];             /* X - C, and P = R (X - C) */
    double c, s, k, square, along;      /* cos, sin(a) / a, (1 - cos) / a^2, a^2, r . v */
    double x, y, rr, distortion;        /* P / P_z, its square, 1 + k1 rr + k2 rr^2 */
} View;

static inline View project(const double *restrict camera, const double *restrict point)
{
    View q;
    const double *r = camera;
    double *v = q.v, *P = q.turned;
    for (int i = 0; i < 3; i++)
        v[i] = point[i] - camera[3 + i];
    double cross[3] = {r[1] * v[2] - r[2] * v[1], r[2] * v[0] - r[0] * v[2], r[0] * v[1] - r[1] * v[0]};
    q.square = r[0] * r[0] + r[1] * r[1] + r[2] * r[2];
    q.along = r[0] * v[0] + r[1] * v[1] + r[2] * v[2];
    if (q.square == 0) {                /* the limits */
        q.c = 1, q.s = 1, q.k = 0.5;
    } else {
        double angle = sqrt(q.square);
        q.c = cos(angle), q.s = sin(angle) / angle, q.k = (1 - q.c) / q.square;
    }
    for (int i = 0; i < 3; i++)
        P[i] = q.c * v[i] + q.s * cross[i] + q.k * q.along * r[i];
    q.x = P[0] / P[2], q.y = P[1] / P[2];
    q.rr = q.x * q.x + q.y * q.y;
    q.distortion = 1 + camera[9] * q.rr + camera[10] * q.rr * q.rr;
    return q;
}

double ba_residuals(long p, const double *restrict cameras, const double *restrict points, const double *restrict weights,
                    const double *restrict features, const long *restrict seen, double *restrict residual,
                    double *restrict penalty)
{
    for (long i = 0; i < p; i++) {
        const double *camera = cameras + 11 * seen[2 * i];
        View q = project(camera, points + 3 * seen[2 * i + 1]);
        double scale = camera[6] * q.distortion;
        residual[2 * i] = weights[i] * (scale * q.x + camera[7] - features[2 * i]);
        residual[2 * i + 1] = weights[i] * (scale * q.y + camera[8] - features[2 * i + 1]);
        penalty[i] = 1 - weights[i] * weights[i];
    }
    return 0;
}

/* The 2 by 3 derivative of the projection by P times the 3 by 3 derivatives of P by r, C and X. */
static inline void block_of(const double *restrict camera, const View *q, double w, const double *restrict feature,
                            double *restrict block)
{
    const double *r = camera, *v = q->v;
    double f = camera[6], x = q->x, y = q->y, k1 = camera[9], k2 = camera[10], rr = q->rr;
    double wf = w * f, near = 1 / q->turned[2], bend = 2 * (k1 + 2 * k2 * rr);
    double by_x[2] = {wf * (q->distortion + bend * x * x) * near, wf * bend * x * y * near};
    double by_y[2] = {by_x[1], wf * (q->distortion + bend * y * y) * near};
    /* d cos = -s r.dr, ds = s1 r.dr, dk = k1_ r.dr */
    double s1 = q->square == 0 ? 0 : (q->c - q->s) / q->square, k_1 = q->square == 0 ? 0 : (q->s - 2 * q->k) / q->square;
    double cross[3] = {r[1] * v[2] - r[2] * v[1], r[2] * v[0] - r[0] * v[2], r[0] * v[1] - r[1] * v[0]};
    double outer[3];                    /* the part of dP/dr that goes with r.dr */
    for (int i = 0; i < 3; i++)
        outer[i] = -q->s * v[i] + s1 * cross[i] + k_1 * q->along * r[i];
    double skew_r[3][3] = {{0, -r[2], r[1]}, {r[2], 0, -r[0]}, {-r[1], r[0], 0}};
    double skew_v[3][3] = {{0, -v[2], v[1]}, {v[2], 0, -v[0]}, {-v[1], v[0], 0}};
    double position[2] = {x, y};
    for (int a = 0; a < 2; a++) {
        double *row = block + 15 * a;
        double g[3] = {by_x[a], by_y[a], -(by_x[a] * x + by_y[a] * y)};
        for (int j = 0; j < 3; j++) {
            double by_r = 0, by_v = 0;
            for (int i = 0; i < 3; i++) {
                by_r += g[i] * (outer[i] * r[j] - q->s * skew_v[i][j] + q->k * (r[i] * v[j] + (i == j) * q->along));
                by_v += g[i] * ((i == j) * q->c + q->s * skew_r[i][j] + q->k * r[i] * r[j]);
            }
            row[j] = by_r, row[3 + j] = -by_v, row[11 + j] = by_v;
        }
        row[6] = w * q->distortion * position[a];
        row[7 + a] = w, row[8 - a] = 0;
        row[9] = wf * position[a] * rr, row[10] = row[9] * rr;
        row[14] = f * q->distortion * position[a] + camera[7 + a] - feature[a];
    }
}

double ba_jacobian(long p, const double *restrict cameras, const double *restrict points, const double *restrict weights,
                   const double *restrict features, const long *restrict seen, double *restrict block,
                   double *restrict slope)
{
    for (long i = 0; i < p; i++) {
        const double *camera = cameras + 11 * seen[2 * i];
        View q = project(camera, points + 3 * seen[2 * i + 1]);
        block_of(camera, &q, weights[i], features + 2 * i, block + 30 * i);
        slope[i] = -2 * weights[i];
    }
    return 0;
}
