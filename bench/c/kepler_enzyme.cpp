void kepler(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, 1000>& e, const enzyme::tensor<double, 1000>& M)
{
    double total = 0;
    for (long i = 0; i < 1000; i++) {
        double E = M[i] + e[i] * sin(M[i]);
        for (int k = 0; k < 64; k++) {
            double delta = (E - e[i] * sin(E) - M[i]) / (1 - e[i] * cos(E));
            E -= delta;
            if (fabs(delta) < 1e-12)
                break;
        }
        total += cos(E);
    }
    out[0] = total;
}
