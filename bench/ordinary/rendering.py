"""Rendering: an image sampled at points between its pixels, an image turned, spheres under a light."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: rendering"


def sample(image: Any, points: Any) -> float:
    """The sum of squares of an image at points between its pixels; a point outside counts as one on the border."""
    rows, columns = image.shape
    total = 0.0
    for p in range(len(points)):
        y = min(max(points[p, 0], 0.0), rows - 1.001)
        x = min(max(points[p, 1], 0.0), columns - 1.001)
        i = int(math.floor(y))
        j = int(math.floor(x))
        fy = y - i
        fx = x - j
        upper = (1.0 - fx) * image[i, j] + fx * image[i, j + 1]
        lower = (1.0 - fx) * image[i + 1, j] + fx * image[i + 1, j + 1]
        value = (1.0 - fy) * upper + fy * lower
        total += value * value
    return total


def sample_two_arrays(image: Any, ys: Any, xs: Any) -> float:
    def mix(a: Any, b: Any, t: Any) -> Any:
        return (1.0 - t) * a + t * b
    rows, columns = image.shape
    total = 0.0
    for y, x in zip(ys, xs):
        y, x = min(max(y, 0.0), rows - 1.001), min(max(x, 0.0), columns - 1.001)
        i, j = int(y), int(x)
        upper = mix(image[i, j], image[i, j + 1], x - j)
        lower = mix(image[i + 1, j], image[i + 1, j + 1], x - j)
        total += mix(upper, lower, y - i) ** 2
    return total


def sample_ifs(image: Any, points: Any) -> float:
    rows, columns = image.shape
    values = np.zeros(len(points))
    p = 0
    while p < len(points):
        y, x = points[p]
        if y < 0.0:
            y = 0.0
        elif y > rows - 1.001:
            y = rows - 1.001
        if x < 0.0:
            x = 0.0
        elif x > columns - 1.001:
            x = columns - 1.001
        i, j = math.floor(y), math.floor(x)
        for di in range(2):
            for dj in range(2):
                weight = (y - i if di else 1.0 - y + i) * (x - j if dj else 1.0 - x + j)
                values[p] += weight * image[i + di, j + dj]
        p += 1
    return np.sum(values ** 2)


def sample_arrays(image: Any, points: Any) -> float:
    rows, columns = image.shape
    y = np.clip(points[:, 0], 0.0, rows - 1.001)
    x = np.clip(points[:, 1], 0.0, columns - 1.001)
    i = np.floor(y).astype(np.int64)
    j = np.floor(x).astype(np.int64)
    fy, fx = y - i, x - j
    upper = (1.0 - fx) * image[i, j] + fx * image[i, j + 1]
    lower = (1.0 - fx) * image[i + 1, j] + fx * image[i + 1, j + 1]
    return np.sum(((1.0 - fy) * upper + fy * lower) ** 2)


def sample_jax(jnp: Any, image: Any, points: Any) -> Any:
    rows, columns = image.shape
    y = jnp.clip(points[:, 0], 0.0, rows - 1.001)
    x = jnp.clip(points[:, 1], 0.0, columns - 1.001)
    i = jnp.floor(y).astype(int)
    j = jnp.floor(x).astype(int)
    fy, fx = y - i, x - j
    upper = (1.0 - fx) * image[i, j] + fx * image[i, j + 1]
    lower = (1.0 - fx) * image[i + 1, j] + fx * image[i + 1, j + 1]
    return (((1.0 - fy) * upper + fy * lower) ** 2).sum()


def turn(image: Any, target: Any, angle: float, dy: float, dx: float) -> float:
    """The squared distance of a turned and shifted image to another one, where they overlap."""
    rows, columns = image.shape
    cosine, sine = math.cos(angle), math.sin(angle)
    error = 0.0
    for i in range(rows):
        for j in range(columns):
            u = i - rows / 2
            v = j - columns / 2
            y = cosine * u - sine * v + rows / 2 + dy
            x = sine * u + cosine * v + columns / 2 + dx
            if y >= 0.0 and x >= 0.0 and y < rows - 1 and x < columns - 1:
                k = int(y)
                c = int(x)
                fy = y - k
                fx = x - c
                value = ((1.0 - fy) * ((1.0 - fx) * image[k, c] + fx * image[k, c + 1])
                         + fy * ((1.0 - fx) * image[k + 1, c] + fx * image[k + 1, c + 1]))
                error += (value - target[i, j]) ** 2
    return error


def turn_continue(image: Any, target: Any, angle: float, dy: float, dx: float) -> float:
    rows, columns = image.shape
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    error = 0.0
    for i in range(rows):
        for j in range(columns):
            y, x = rotation @ np.array([i - rows / 2, j - columns / 2])
            y += rows / 2 + dy
            x += columns / 2 + dx
            if y < 0.0 or x < 0.0 or y >= rows - 1 or x >= columns - 1:
                continue
            k, c = int(y), int(x)
            fy, fx = y - k, x - c
            value = ((1.0 - fy) * ((1.0 - fx) * image[k, c] + fx * image[k, c + 1])
                     + fy * ((1.0 - fx) * image[k + 1, c] + fx * image[k + 1, c + 1]))
            error += (value - target[i, j]) ** 2
    return error


def turn_stored(image: Any, target: Any, angle: float, dy: float, dx: float) -> float:
    rows, columns = image.shape
    out = target.copy()
    for i in range(rows):
        for j in range(columns):
            u, v = i - rows / 2, j - columns / 2
            y = math.cos(angle) * u - math.sin(angle) * v + rows / 2 + dy
            x = math.sin(angle) * u + math.cos(angle) * v + columns / 2 + dx
            if 0.0 <= y < rows - 1 and 0.0 <= x < columns - 1:
                k, c = math.floor(y), math.floor(x)
                corners = image[k:k + 2, c:c + 2]
                wy, wx = np.array([k + 1 - y, y - k]), np.array([c + 1 - x, x - c])
                out[i, j] = wy @ corners @ wx
    return np.sum((out - target) ** 2)


def render(spheres: Any, light: Any, size: int) -> float:
    """The energy of an image of spheres (centre and radius) under a light, seen from the origin along z."""
    energy = 0.0
    for i in range(size):
        for j in range(size):
            dy = 2.0 * i / size - 1.0
            dx = 2.0 * j / size - 1.0
            length = math.sqrt(dx * dx + dy * dy + 1.0)
            dx, dy, dz = dx / length, dy / length, 1.0 / length
            nearest = 1e30
            hit = -1
            for k in range(len(spheres)):
                x, y, z, r = spheres[k, 0], spheres[k, 1], spheres[k, 2], spheres[k, 3]
                along = dx * x + dy * y + dz * z
                inside = along * along - (x * x + y * y + z * z - r * r)
                if inside > 0.0:
                    t = along - math.sqrt(inside)
                    if t > 0.0 and t < nearest:
                        nearest = t
                        hit = k
            if hit >= 0:
                r = spheres[hit, 3]
                nx = (nearest * dx - spheres[hit, 0]) / r
                ny = (nearest * dy - spheres[hit, 1]) / r
                nz = (nearest * dz - spheres[hit, 2]) / r
                shade = nx * light[0] + ny * light[1] + nz * light[2]
                if shade > 0.0:
                    energy += shade * shade
    return energy


def render_four_arrays(x: Any, y: Any, z: Any, r: Any, light: Any, size: int) -> float:
    energy = 0.0
    for i in range(size):
        for j in range(size):
            dy, dx, dz = 2.0 * i / size - 1.0, 2.0 * j / size - 1.0, 1.0
            length = math.sqrt(dx ** 2 + dy ** 2 + dz ** 2)
            dx, dy, dz = dx / length, dy / length, dz / length
            nearest, hit = math.inf, -1
            for k in range(len(x)):
                along = dx * x[k] + dy * y[k] + dz * z[k]
                inside = along ** 2 - (x[k] ** 2 + y[k] ** 2 + z[k] ** 2 - r[k] ** 2)
                if inside <= 0.0:
                    continue
                t = along - math.sqrt(inside)
                if 0.0 < t < nearest:
                    nearest, hit = t, k
            if hit >= 0:
                shade = ((nearest * dx - x[hit]) * light[0] + (nearest * dy - y[hit]) * light[1]
                         + (nearest * dz - z[hit]) * light[2]) / r[hit]
                energy += max(shade, 0.0) ** 2
    return energy


def render_vectors(spheres: Any, light: Any, size: int) -> float:
    def distance(sphere: Any, d: Any) -> Any:
        along = d @ sphere[:3]
        inside = along ** 2 - (sphere[:3] @ sphere[:3] - sphere[3] ** 2)
        if inside <= 0.0:
            return math.inf
        t = along - math.sqrt(inside)
        return t if t > 0.0 else math.inf
    energy = 0.0
    for i in range(size):
        for j in range(size):
            d = np.array([2.0 * j / size - 1.0, 2.0 * i / size - 1.0, 1.0])
            d /= np.sqrt(np.sum(d ** 2))
            nearest, hit = math.inf, 0
            for k in range(len(spheres)):
                t = distance(spheres[k], d)
                if t < nearest:
                    nearest, hit = t, k
            if nearest < math.inf:
                normal = (nearest * d - spheres[hit, :3]) / spheres[hit, 3]
                energy += max(normal @ light, 0.0) ** 2
    return energy


def render_arrays(spheres: Any, light: Any, size: int) -> float:
    axis = 2.0 * np.arange(size) / size - 1.0
    energy = 0.0
    for dy in axis:
        for dx in axis:
            d = np.array([dx, dy, 1.0]) / math.sqrt(dx ** 2 + dy ** 2 + 1.0)
            along = spheres[:, :3] @ d
            inside = along ** 2 - np.sum(spheres[:, :3] ** 2, axis=1) + spheres[:, 3] ** 2
            t = np.where(inside > 0.0, along - np.sqrt(np.where(inside > 0.0, inside, 1.0)), np.inf)
            t = np.where(t > 0.0, t, np.inf)
            hit = np.argmin(t)
            if t[hit] < np.inf:
                normal = (t[hit] * d - spheres[hit, :3]) / spheres[hit, 3]
                energy += np.maximum(normal @ light, 0.0) ** 2
    return energy


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(3)
    y, x = np.mgrid[0:128, 0:128] / 15.0
    image = np.sin(x) * np.cos(1.3 * y) + 0.2 * x
    points = rng.uniform(-3.0, 130.0, (20_000, 2))
    spheres = np.column_stack([rng.uniform(-2.0, 2.0, (9, 2)), rng.uniform(3.0, 6.0, 9), rng.uniform(0.4, 1.2, 9)])
    light = np.array([0.4, -0.6, -0.7])
    apart = [spheres[:, k].copy() for k in range(4)]
    yield from of_programs(bench, "rendering", [
        Ordinary(sample, (image, points), (0, 1),
                 {"two arrays": sample_two_arrays, "ifs": sample_ifs, "arrays": sample_arrays},
                 {"two arrays": (image, points[:, 0].copy(), points[:, 1].copy())}, adjoint=True, jax=sample_jax),
        Ordinary(turn, (image, np.roll(image, 3, axis=0), 0.1, 1.5, -2.25), (0, 2, 3, 4),
                 {"continue, matrix": turn_continue, "stored, corners": turn_stored}, adjoint=True),
        Ordinary(render, (spheres, light, 64), (0, 1),
                 {"four arrays": render_four_arrays, "vectors": render_vectors, "arrays": render_arrays},
                 {"four arrays": (*apart, light, 64)}, adjoint=True)])
