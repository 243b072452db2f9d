// D, K, N; what does not depend on the mixture is added outside
#define WIDTH (D + D * (D - 1) / 2)
static inline double logsumexp(const double *v)
{
    double biggest = v[0], total = 0;
    for (long k = 1; k < K; k++)
        biggest = v[k] > biggest ? v[k] : biggest;
    for (long k = 0; k < K; k++)
        total += exp(v[k] - biggest);
    return biggest + log(total);
}
void gmm(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, K>& alphas, const enzyme::tensor<double, K * D>& means,
         const enzyme::tensor<double, K * WIDTH>& icf, const enzyme::tensor<double, N * D>& x,
         const enzyme::tensor<double, 2>& prior)
{
    double diagonals[K * D], logs[K], terms[K], centred[D], scaled[D], likelihood = 0, wishart = 0;
    const double gamma = prior[0], m = prior[1];
    for (long k = 0; k < K; k++) {
        double squares = 0;
        logs[k] = 0;
        for (long j = 0; j < D; j++) {
            diagonals[k * D + j] = exp(icf[k * WIDTH + j]);
            logs[k] += icf[k * WIDTH + j];
            squares += diagonals[k * D + j] * diagonals[k * D + j];
        }
        for (long j = D; j < WIDTH; j++)
            squares += icf[k * WIDTH + j] * icf[k * WIDTH + j];
        wishart += 0.5 * gamma * gamma * squares - m * logs[k];
    }
    for (long i = 0; i < N; i++) {
        for (long k = 0; k < K; k++) {
            for (long j = 0; j < D; j++) {
                centred[j] = x[i * D + j] - means[k * D + j];
                scaled[j] = diagonals[k * D + j] * centred[j];
            }
            for (long j = 0; j < D; j++) {
                long column = k * WIDTH + D + j * (2 * D - j - 1) / 2 - (j + 1);
                for (long r = j + 1; r < D; r++)
                    scaled[r] += icf[column + r] * centred[j];
            }
            double square = 0;
            for (long j = 0; j < D; j++)
                square += scaled[j] * scaled[j];
            terms[k] = alphas[k] + logs[k] - 0.5 * square;
        }
        likelihood += logsumexp(terms);
    }
    double given[K];
    for (long k = 0; k < K; k++)
        given[k] = alphas[k];
    out[0] = likelihood - N * logsumexp(given) + wishart;
}
