// Scalars, and no arrays of three, which take twice the time here.
static inline void slope(double x, double y, double z, double sigma, double rho, double beta, double& dx, double& dy,
                         double& dz)
{
    dx = sigma * (y - x);
    dy = x * (rho - z) - y;
    dz = x * y - beta * z;
}
void lorenz(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, 3>& start, const enzyme::tensor<double, 3>& p)
{
    const double h = 0.001, a = p[0], b = p[1], c = p[2];
    double x = start[0], y = start[1], z = start[2];
    for (long n = 0; n < 10000; n++) {
        double x1, y1, z1, x2, y2, z2, x3, y3, z3, x4, y4, z4;
        slope(x, y, z, a, b, c, x1, y1, z1);
        slope(x + h / 2 * x1, y + h / 2 * y1, z + h / 2 * z1, a, b, c, x2, y2, z2);
        slope(x + h / 2 * x2, y + h / 2 * y2, z + h / 2 * z2, a, b, c, x3, y3, z3);
        slope(x + h * x3, y + h * y3, z + h * z3, a, b, c, x4, y4, z4);
        x += h / 6 * (x1 + 2 * x2 + 2 * x3 + x4);
        y += h / 6 * (y1 + 2 * y2 + 2 * y3 + y4);
        z += h / 6 * (z1 + 2 * z2 + 2 * z3 + z4);
    }
    out[0] = x + y + z;
}
