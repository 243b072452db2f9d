// The kernels of ``cases.py`` as one would write them by hand: a thread for each element.  Loops of reductions are not
// unrolled, so that instructions can be counted by iteration.  Indices count from the end if they are negative, as in
// the programs; those ``_checked`` are compared with the size, and a wrong one is reported to the host.

extern "C" {

__global__ void fused(const double *x, const double *y, double a, double *z, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = tanh(a * x[i] + y[i]) * x[i];
}

__global__ void fused_gradient(const double *x, const double *y, double *z, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = exp(x[i] * y[i]) * y[i] * y[i];
}

__global__ void broadcast(const double *a, const double *b, const double *c, double *z, long long rows, long long cols) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) z[i] = a[i / cols] * b[i % cols] + c[i];
}

__device__ long long counted(long long k, long long m) { return k < 0 ? k + m : k; }

__global__ void gather(const double *x, long long m, const long long *index, double *z, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[counted(index[i], m)];
}

__global__ void scatter_add(const double *x, const long long *index, double *z, long long m, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(z + counted(index[i], m), x[i]);
}

__device__ __noinline__ void report(unsigned long long *error, unsigned long long code, long long k, long long m) {
    if (atomicCAS(error, 0, code)) return;
    error[1] = k;
    error[2] = m;
}

__global__ void gather_checked(unsigned long long *error, const double *x, long long m, const long long *index,
                               double *z, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || *(volatile unsigned long long *)error) return;
    long long k = counted(index[i], m);
    if (k < 0 || k >= m) return report(error, 1, index[i], m);
    z[i] = x[k];
}

__global__ void scatter_add_checked(unsigned long long *error, const double *x, const long long *index, long long given,
                                    double *z, long long m, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || *(volatile unsigned long long *)error) return;
    if (i >= given) return report(error, 1, i, given);
    long long k = counted(index[i], m);
    if (k < 0 || k >= m) return report(error, 2, index[i], m);
    atomicAdd(z + k, x[i]);
}

__device__ double block_sum(double v) {
    __shared__ double parts[8];
    for (int k = 16; k; k /= 2) v += __shfl_down_sync(0xffffffff, v, k);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < 8 ? parts[threadIdx.x] : 0.0;
    for (int k = 16; k; k /= 2) v += __shfl_down_sync(0xffffffff, v, k);
    return v;
}

__global__ void sum(const double *x, double *parts, long long n) {
    double v = 0.0;
    #pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        v += x[i];
    v = block_sum(v);
    if (threadIdx.x == 0) parts[blockIdx.x] = v;
}

__global__ void dot(const double *x, const double *y, double *parts, long long n) {
    double v = 0.0;
    #pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        v += x[i] * y[i];
    v = block_sum(v);
    if (threadIdx.x == 0) parts[blockIdx.x] = v;
}

__global__ void black_scholes(const double *S, const double *K, const double *T, double r, double v, double *z,
                              long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double w = v * sqrt(T[i]);
    double d1 = (log(S[i] / K[i]) + (r + 0.5 * v * v) * T[i]) / w;
    double d2 = d1 - w;
    z[i] = S[i] * 0.5 * (1 + erf(d1 * 0.7071067811865476)) - K[i] * exp(-r * T[i]) * 0.5 * (1 + erf(d2 * 0.7071067811865476));
}

__global__ void lorenz(const double *x0, double *z, long long steps, double h, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = x0[i], y = 1.0, w = 1.0;
    for (long long k = 0; k < steps; k++) {
        double dx = 10.0 * (y - x), dy = x * (28.0 - w) - y, dw = x * y - 8.0 / 3.0 * w;
        x += h * dx;
        y += h * dy;
        w += h * dw;
    }
    z[i] = x + y + w;
}

__global__ void kepler(const double *e, const double *M, double *z, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double E = M[i], f = 1.0;
    while (fabs(f) > 1e-12) {
        f = E - e[i] * sin(E) - M[i];
        E -= f / (1.0 - e[i] * cos(E));
    }
    z[i] = E;
}

}
