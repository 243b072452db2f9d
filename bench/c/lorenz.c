/* The Lorenz system by the classical Runge-Kutta method; the last state's x + y + z, and its adjoint.
   p: sigma, rho, beta.  kept: 3 * steps doubles.  The stages are computed anew on the way back. */
static void slope(const double *restrict s, const double *restrict p, double *restrict k)
{
    k[0] = p[0] * (s[1] - s[0]);
    k[1] = s[0] * (p[1] - s[2]) - s[1];
    k[2] = s[0] * s[1] - p[2] * s[2];
}

static inline void moved(const double *s, double h, const double *k, double *to)
{
    for (int i = 0; i < 3; i++)
        to[i] = s[i] + h * k[i];
}

static inline void step(double *s, const double *p, double h)
{
    double k1[3], k2[3], k3[3], k4[3], u[3];
    slope(s, p, k1);
    moved(s, h / 2, k1, u);
    slope(u, p, k2);
    moved(s, h / 2, k2, u);
    slope(u, p, k3);
    moved(s, h, k3, u);
    slope(u, p, k4);
    for (int i = 0; i < 3; i++)
        s[i] += h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
}

double lorenz(long steps, double h, const double *start, const double *p)
{
    double s[3] = {start[0], start[1], start[2]};
    for (long n = 0; n < steps; n++)
        step(s, p, h);
    return s[0] + s[1] + s[2];
}

/* u_bar = (slope at u)' transposed times k_bar; what it adds for the parameters. */
static inline void slope_bar(const double *u, const double *p, const double *k_bar, double *u_bar, double *p_bar)
{
    u_bar[0] = -p[0] * k_bar[0] + (p[1] - u[2]) * k_bar[1] + u[1] * k_bar[2];
    u_bar[1] = p[0] * k_bar[0] - k_bar[1] + u[0] * k_bar[2];
    u_bar[2] = -u[0] * k_bar[1] - p[2] * k_bar[2];
    p_bar[0] += (u[1] - u[0]) * k_bar[0];
    p_bar[1] += u[0] * k_bar[1];
    p_bar[2] -= u[2] * k_bar[2];
}

double lorenz_gradient(long steps, double h, const double *start, const double *p, double *s_bar, double *p_bar,
                       double *restrict kept)
{
    double s[3] = {start[0], start[1], start[2]};
    for (long n = 0; n < steps; n++) {
        for (int i = 0; i < 3; i++)
            kept[3 * n + i] = s[i];
        step(s, p, h);
    }
    double g[3] = {1, 1, 1}, q[3] = {0, 0, 0};
    for (long n = steps - 1; n >= 0; n--) {
        const double *at = kept + 3 * n;
        double k[3], u2[3], u3[3], u4[3], b[3], v[3], sum[3];
        slope(at, p, k);
        moved(at, h / 2, k, u2);
        slope(u2, p, k);
        moved(at, h / 2, k, u3);
        slope(u3, p, k);
        moved(at, h, k, u4);
        for (int i = 0; i < 3; i++)
            b[i] = h / 6 * g[i];
        slope_bar(u4, p, b, v, q);
        for (int i = 0; i < 3; i++) {
            sum[i] = g[i] + v[i];
            b[i] = h / 3 * g[i] + h * v[i];
        }
        slope_bar(u3, p, b, v, q);
        for (int i = 0; i < 3; i++) {
            sum[i] += v[i];
            b[i] = h / 3 * g[i] + h / 2 * v[i];
        }
        slope_bar(u2, p, b, v, q);
        for (int i = 0; i < 3; i++) {
            sum[i] += v[i];
            b[i] = h / 6 * g[i] + h / 2 * v[i];
        }
        slope_bar(at, p, b, v, q);
        for (int i = 0; i < 3; i++)
            g[i] = sum[i] + v[i];
    }
    for (int i = 0; i < 3; i++) {
        s_bar[i] = g[i];
        p_bar[i] = q[i];
    }
    return s[0] + s[1] + s[2];
}
