void nbody(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, 768>& x,
           const enzyme::tensor<double, 768>& v, const enzyme::tensor<double, 256>& m)
{
    double energy = 0;
    for (long i = 0; i < 256; i++) {
        energy += 0.5 * m[i] * (v[3 * i] * v[3 * i] + v[3 * i + 1] * v[3 * i + 1] + v[3 * i + 2] * v[3 * i + 2]);
        double pull = 0;
        for (long j = 0; j < i; j++) {
            double dx = x[3 * i] - x[3 * j], dy = x[3 * i + 1] - x[3 * j + 1], dz = x[3 * i + 2] - x[3 * j + 2];
            pull += m[j] / sqrt(dx * dx + dy * dy + dz * dz + 1e-3);
        }
        energy -= m[i] * pull;
    }
    out[0] = energy;
}
