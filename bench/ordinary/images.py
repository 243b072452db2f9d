"""Images: convolution, edges, a filter that keeps edges, denoising by descent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: images"


def convolve(image: Any, kernel: Any) -> float:
    """The energy of an image behind a small kernel."""
    rows, columns = image.shape
    m, n = kernel.shape
    energy = 0.0
    for i in range(rows - m + 1):
        for j in range(columns - n + 1):
            s = 0.0
            for k in range(m):
                for c in range(n):
                    s += kernel[k, c] * image[i + k, j + c]
            energy += s * s
    return energy


def convolve_stored(image: Any, kernel: Any) -> float:
    rows, columns = image.shape
    m, n = kernel.shape
    out = np.zeros((rows - m + 1, columns - n + 1))
    for i in range(rows - m + 1):
        for j in range(columns - n + 1):
            for k in range(m):
                for c in range(n):
                    out[i, j] += kernel[k, c] * image[i + k, j + c]
    return np.sum(out * out)


def convolve_kernel_outside(image: Any, kernel: Any) -> float:
    rows, columns = image.shape[0] - kernel.shape[0] + 1, image.shape[1] - kernel.shape[1] + 1
    out = np.zeros((rows, columns))
    for k in range(kernel.shape[0]):
        for c in range(kernel.shape[1]):
            for i in range(rows):
                for j in range(columns):
                    out[i, j] += kernel[k, c] * image[i + k, j + c]
    energy = 0.0
    for i in range(rows):
        for j in range(columns):
            energy += out[i, j] ** 2
    return energy


def convolve_windows(image: Any, kernel: Any) -> float:
    m, n = kernel.shape
    energy = 0.0
    for i in range(image.shape[0] - m + 1):
        for j in range(image.shape[1] - n + 1):
            energy += np.sum(kernel * image[i:i + m, j:j + n]) ** 2
    return energy


def convolve_slices(image: Any, kernel: Any) -> float:
    rows, columns = image.shape[0] - kernel.shape[0] + 1, image.shape[1] - kernel.shape[1] + 1
    out = np.zeros((rows, columns))
    for k in range(kernel.shape[0]):
        for c in range(kernel.shape[1]):
            out += kernel[k, c] * image[k:k + rows, c:c + columns]
    return np.sum(out ** 2)


def convolve_jax(jnp: Any, image: Any, kernel: Any) -> Any:
    rows, columns = image.shape[0] - kernel.shape[0] + 1, image.shape[1] - kernel.shape[1] + 1
    out = sum(kernel[k, c] * image[k:k + rows, c:c + columns]
              for k in range(kernel.shape[0]) for c in range(kernel.shape[1]))
    return (out * out).sum()


def edges(image: Any, threshold: float) -> float:
    """The sum of the slopes above a threshold, by Sobel's kernels."""
    rows, columns = image.shape
    total = 0.0
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            gx = (image[i - 1, j + 1] + 2.0 * image[i, j + 1] + image[i + 1, j + 1]
                  - image[i - 1, j - 1] - 2.0 * image[i, j - 1] - image[i + 1, j - 1])
            gy = (image[i + 1, j - 1] + 2.0 * image[i + 1, j] + image[i + 1, j + 1]
                  - image[i - 1, j - 1] - 2.0 * image[i - 1, j] - image[i - 1, j + 1])
            slope = math.sqrt(gx * gx + gy * gy)
            if slope > threshold:
                total += slope
    return total


def edges_kernels(image: Any, threshold: float) -> float:
    across = np.array([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    rows, columns = image.shape
    total = 0.0
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            gx, gy = 0.0, 0.0
            for k in range(3):
                for c in range(3):
                    v = image[i + k - 1, j + c - 1]
                    gx += across[k, c] * v
                    gy += across[c, k] * v
            slope = math.sqrt(gx * gx + gy * gy)
            total += slope if slope > threshold else 0.0
    return total


def edges_arrays(image: Any, threshold: float) -> float:
    gx = (image[:-2, 2:] + 2.0 * image[1:-1, 2:] + image[2:, 2:]
          - image[:-2, :-2] - 2.0 * image[1:-1, :-2] - image[2:, :-2])
    gy = (image[2:, :-2] + 2.0 * image[2:, 1:-1] + image[2:, 2:]
          - image[:-2, :-2] - 2.0 * image[:-2, 1:-1] - image[:-2, 2:])
    slope = np.sqrt(gx ** 2 + gy ** 2)
    return np.sum(np.where(slope > threshold, slope, 0.0))


def edges_separable(image: Any, threshold: float) -> float:
    rows, columns = image.shape
    smooth = np.zeros((rows, columns))
    step = np.zeros((rows, columns))
    for i in range(1, rows - 1):
        for j in range(columns):
            smooth[i, j] = image[i - 1, j] + 2.0 * image[i, j] + image[i + 1, j]
            step[i, j] = image[i + 1, j] - image[i - 1, j]
    total = 0.0
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            gx = smooth[i, j + 1] - smooth[i, j - 1]
            gy = step[i, j - 1] + 2.0 * step[i, j] + step[i, j + 1]
            slope = math.sqrt(gx * gx + gy * gy)
            if slope > threshold:
                total += slope
    return total


def edges_jax(jnp: Any, image: Any, threshold: Any) -> Any:
    gx = (image[:-2, 2:] + 2.0 * image[1:-1, 2:] + image[2:, 2:]
          - image[:-2, :-2] - 2.0 * image[1:-1, :-2] - image[2:, :-2])
    gy = (image[2:, :-2] + 2.0 * image[2:, 1:-1] + image[2:, 2:]
          - image[:-2, :-2] - 2.0 * image[:-2, 1:-1] - image[:-2, 2:])
    slope = jnp.sqrt(gx ** 2 + gy ** 2)
    return jnp.where(slope > threshold, slope, 0.0).sum()


def bilateral(image: Any, spread: float, contrast: float, radius: int) -> float:
    """The energy behind a filter whose weights fall with the distance and with the difference in brightness."""
    rows, columns = image.shape
    near = 0.5 / (spread * spread)
    alike = 0.5 / (contrast * contrast)
    energy = 0.0
    for i in range(rows):
        for j in range(columns):
            top = 0.0
            bottom = 0.0
            for k in range(max(0, i - radius), min(rows, i + radius + 1)):
                for c in range(max(0, j - radius), min(columns, j + radius + 1)):
                    difference = image[k, c] - image[i, j]
                    weight = math.exp(-near * ((k - i) ** 2 + (c - j) ** 2) - alike * difference * difference)
                    top += weight * image[k, c]
                    bottom += weight
            out = top / bottom
            energy += out * out
    return energy


def bilateral_skips(image: Any, spread: float, contrast: float, radius: int) -> float:
    rows, columns = image.shape
    out = np.zeros((rows, columns))
    for i in range(rows):
        for j in range(columns):
            sums = np.zeros(2)
            for di in range(-radius, radius + 1):
                for dj in range(-radius, radius + 1):
                    k, c = i + di, j + dj
                    if k < 0 or k >= rows or c < 0 or c >= columns:
                        continue
                    difference = image[k, c] - image[i, j]
                    distance = di ** 2 + dj ** 2
                    weight = math.exp(-distance / (2.0 * spread ** 2) - difference ** 2 / (2.0 * contrast ** 2))
                    sums[0] += weight * image[k, c]
                    sums[1] += weight
            out[i, j] = sums[0] / sums[1]
    return np.sum(out ** 2)


def bilateral_helper(image: Any, spread: float, contrast: float, radius: int) -> float:
    def gauss(square: Any, width: Any) -> Any:
        return math.exp(-0.5 * square / (width * width))
    rows, columns = image.shape
    energy = 0.0
    for i in range(rows):
        for j in range(columns):
            centre, top, bottom = image[i, j], 0.0, 0.0
            k = max(0, i - radius)
            while k < rows and k <= i + radius:
                c = max(0, j - radius)
                while c < columns and c <= j + radius:
                    v = image[k, c]
                    weight = gauss((k - i) ** 2 + (c - j) ** 2, spread) * gauss((v - centre) ** 2, contrast)
                    top, bottom = top + weight * v, bottom + weight
                    c += 1
                k += 1
            energy += (top / bottom) ** 2
    return energy


def bilateral_windows(image: Any, spread: float, contrast: float, radius: int) -> float:
    rows, columns = image.shape
    energy = 0.0
    for i in range(rows):
        for j in range(columns):
            i0, i1 = max(0, i - radius), min(rows, i + radius + 1)
            j0, j1 = max(0, j - radius), min(columns, j + radius + 1)
            window = image[i0:i1, j0:j1]
            distance = ((np.arange(i0, i1) - i) ** 2)[:, None] + ((np.arange(j0, j1) - j) ** 2)[None, :]
            weight = np.exp(-distance / (2.0 * spread ** 2) - (window - image[i, j]) ** 2 / (2.0 * contrast ** 2))
            energy += (np.sum(weight * window) / np.sum(weight)) ** 2
    return energy


def denoise(noisy: Any, weight: float, rate: float, steps: int) -> float:
    """The energy of an image after some steps of descent on its total variation."""
    rows, columns = noisy.shape
    u = noisy.copy()
    px = np.zeros((rows, columns))
    py = np.zeros((rows, columns))
    for _ in range(steps):
        for i in range(rows - 1):
            for j in range(columns - 1):
                dx = u[i, j + 1] - u[i, j]
                dy = u[i + 1, j] - u[i, j]
                size = math.sqrt(dx * dx + dy * dy + 1e-3)
                px[i, j] = dx / size
                py[i, j] = dy / size
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                divergence = px[i, j] - px[i, j - 1] + py[i, j] - py[i - 1, j]
                u[i, j] += rate * (weight * divergence - (u[i, j] - noisy[i, j]))
    return np.sum(u * u)


def denoise_new_arrays(noisy: Any, weight: float, rate: float, steps: int) -> float:
    rows, columns = noisy.shape
    u = noisy
    for _ in range(steps):
        px, py = np.zeros((rows, columns)), np.zeros((rows, columns))
        for i in range(rows - 1):
            for j in range(columns - 1):
                dx, dy = u[i, j + 1] - u[i, j], u[i + 1, j] - u[i, j]
                size = math.sqrt(dx * dx + dy * dy + 1e-3)
                px[i, j], py[i, j] = dx / size, dy / size
        new = u.copy()
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                divergence = px[i, j] - px[i, j - 1] + py[i, j] - py[i - 1, j]
                new[i, j] = u[i, j] + rate * (weight * divergence - (u[i, j] - noisy[i, j]))
        u = new
    energy = 0.0
    for i in range(rows):
        for j in range(columns):
            energy += u[i, j] ** 2
    return energy


def denoise_helper(noisy: Any, weight: float, rate: float, steps: int) -> float:
    def direction(u: Any, i: Any, j: Any) -> Any:
        dx, dy = u[i, j + 1] - u[i, j], u[i + 1, j] - u[i, j]
        size = math.sqrt(dx * dx + dy * dy + 1e-3)
        return dx / size, dy / size
    u = noisy.copy()
    for _ in range(steps):
        new = u.copy()
        for i in range(1, noisy.shape[0] - 1):
            for j in range(1, noisy.shape[1] - 1):
                px, py = direction(u, i, j)
                divergence = px - direction(u, i, j - 1)[0] + py - direction(u, i - 1, j)[1]
                new[i, j] += rate * (weight * divergence - (u[i, j] - noisy[i, j]))
        u = new
    return np.sum(u ** 2)


def denoise_arrays(noisy: Any, weight: float, rate: float, steps: int) -> float:
    u = noisy.copy()
    for _ in range(steps):
        dx = u[:-1, 1:] - u[:-1, :-1]
        dy = u[1:, :-1] - u[:-1, :-1]
        size = np.sqrt(dx ** 2 + dy ** 2 + 1e-3)
        px, py = dx / size, dy / size
        divergence = px[1:, 1:] - px[1:, :-1] + py[1:, 1:] - py[:-1, 1:]
        u[1:-1, 1:-1] += rate * (weight * divergence - (u[1:-1, 1:-1] - noisy[1:-1, 1:-1]))
    return np.sum(u ** 2)


def denoise_jax(jnp: Any, noisy: Any, weight: Any, rate: Any, steps: int) -> Any:
    from jax import lax

    def step(u: Any, _: None) -> tuple[Any, None]:
        dx = u[:-1, 1:] - u[:-1, :-1]
        dy = u[1:, :-1] - u[:-1, :-1]
        size = jnp.sqrt(dx ** 2 + dy ** 2 + 1e-3)
        px, py = dx / size, dy / size
        divergence = px[1:, 1:] - px[1:, :-1] + py[1:, 1:] - py[:-1, 1:]
        return u.at[1:-1, 1:-1].add(rate * (weight * divergence - (u[1:-1, 1:-1] - noisy[1:-1, 1:-1]))), None
    u, _ = lax.scan(step, noisy, None, length=steps)
    return (u ** 2).sum()


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(2)
    y, x = np.mgrid[0:160, 0:160] / 20.0
    image = np.sin(x) * np.cos(1.3 * y) + 0.5 * (x > y) + rng.normal(0.0, 0.1, x.shape)
    yield from of_programs(bench, "images", [
        Ordinary(convolve, (image[:100, :100].copy(), rng.normal(0.0, 0.2, (5, 5))), (0, 1),
                 {"stored": convolve_stored, "kernel outside": convolve_kernel_outside, "windows": convolve_windows,
                  "slices": convolve_slices}, adjoint=True, jax=convolve_jax),
        Ordinary(edges, (image, 1.0), (0,),
                 {"kernels": edges_kernels, "arrays": edges_arrays, "separable": edges_separable},
                 adjoint=True, jax=edges_jax),
        Ordinary(bilateral, (image[:48, :48].copy(), 1.5, 0.4, 2), (0, 1, 2),
                 {"skips": bilateral_skips, "helper, while": bilateral_helper, "windows": bilateral_windows},
                 adjoint=True),
        Ordinary(denoise, (image[:80, :80].copy(), 0.3, 0.1, 10), (0, 1),
                 {"new arrays": denoise_new_arrays, "helper": denoise_helper, "arrays": denoise_arrays},
                 adjoint=True, jax=denoise_jax)])
