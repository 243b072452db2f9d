using vec3 = enzyme::tensor<double, 3>;
static inline void slope(const double *s, const double *p, double *k)
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
void lorenz(enzyme::tensor<double, 1>& out, const vec3& start, const vec3& parameters)
{
    const double h = 0.001;
    double s[3], p[3];
    for (int i = 0; i < 3; i++) {
        s[i] = start[i];
        p[i] = parameters[i];
    }
    for (long n = 0; n < 10000; n++) {
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
    out[0] = s[0] + s[1] + s[2];
}
