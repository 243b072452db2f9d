"""Portfolios: discount factors from par rates in many scenarios, the variance of a portfolio, its rebalancing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: portfolios"


def bootstrap(rates: Any, coupon: float) -> float:
    """The mean price of a bond on the curves that are found from par rates, a scenario each row."""
    scenarios, n = rates.shape
    total = 0.0
    for s in range(scenarios):
        factors = np.zeros(n)
        for i in range(n):
            annuity = 0.0
            for j in range(i):
                annuity += factors[j]
            factors[i] = (1.0 - rates[s, i] * annuity) / (1.0 + rates[s, i])
        price = factors[n - 1]
        for i in range(n):
            zero = -math.log(factors[i]) / (i + 1)
            price += coupon * math.exp(-(zero + 0.001) * (i + 1))
        total += price
    return total / scenarios


def bootstrap_scratch(rates: Any, coupon: float) -> float:
    scenarios, n = rates.shape
    factors = np.zeros(n)
    total = 0.0
    for s in range(scenarios):
        for i in range(n):
            factors[i] = 1.0
            for j in range(i):
                factors[i] -= rates[s, i] * factors[j]
            factors[i] /= 1.0 + rates[s, i]
        total += factors[n - 1]
        for i in range(n):
            zero = -math.log(factors[i]) / (i + 1.0)
            total += coupon * math.exp(-(zero + 0.001) * (i + 1.0))
    return total / scenarios


def bootstrap_slices(rates: Any, coupon: float) -> float:
    n = rates.shape[1]
    times = np.arange(1, n + 1)
    total = 0.0
    for row in rates:
        factors = np.zeros(n)
        for i in range(n):
            factors[i] = (1.0 - row[i] * np.sum(factors[:i])) / (1.0 + row[i])
        zeros = -np.log(factors) / times
        total += factors[-1] + coupon * np.sum(np.exp(-(zeros + 0.001) * times))
    return total / len(rates)


def bootstrap_all(rates: Any, coupon: float) -> float:
    scenarios, n = rates.shape
    factors = np.zeros((scenarios, n))
    prices = np.zeros(scenarios)
    for i in range(n):
        c = rates[:, i]
        factors[:, i] = (1.0 - c * np.sum(factors[:, :i], axis=1)) / (1.0 + c)
        zeros = -np.log(factors[:, i]) / (i + 1)
        prices += coupon * np.exp(-(zeros + 0.001) * (i + 1))
    return np.mean(prices + factors[:, n - 1])


def sharpe(returns: Any, weights: Any) -> float:
    """The Sharpe ratio of a portfolio, by the matrix of covariances."""
    days, n = returns.shape
    means = np.zeros(n)
    for t in range(days):
        for i in range(n):
            means[i] += returns[t, i] / days
    cov = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for t in range(days):
                cov[i, j] += (returns[t, i] - means[i]) * (returns[t, j] - means[j])
            cov[i, j] /= days - 1
    mean = 0.0
    variance = 0.0
    for i in range(n):
        mean += weights[i] * means[i]
        for j in range(n):
            variance += weights[i] * cov[i, j] * weights[j]
    return mean / math.sqrt(variance)


def sharpe_days_outside(returns: Any, weights: Any) -> float:
    days, n = returns.shape
    means = np.mean(returns, axis=0)
    cov = np.zeros((n, n))
    for t in range(days):
        for i in range(n):
            for j in range(n):
                cov[i, j] += (returns[t, i] - means[i]) * (returns[t, j] - means[j]) / (days - 1)
    return np.dot(weights, means) / math.sqrt(weights @ cov @ weights)


def sharpe_scalar(returns: Any, weights: Any) -> float:
    days, n = returns.shape
    centred = returns.copy()
    mean = 0.0
    for i in range(n):
        s = 0.0
        for t in range(days):
            s += returns[t, i]
        s /= days
        mean += weights[i] * s
        for t in range(days):
            centred[t, i] -= s
    variance = 0.0
    for i in range(n):
        for j in range(n):
            c = 0.0
            for t in range(days):
                c += centred[t, i] * centred[t, j]
            variance += weights[i] * weights[j] * c / (days - 1)
    return mean / math.sqrt(variance)


def sharpe_numpy(returns: Any, weights: Any) -> float:
    means = returns.mean(axis=0)
    centred = returns - means
    cov = centred.T @ centred / (len(returns) - 1)
    return weights @ means / np.sqrt(weights @ cov @ weights)


def sharpe_jax(jnp: Any, returns: Any, weights: Any) -> Any:
    means = returns.mean(axis=0)
    centred = returns - means
    cov = centred.T @ centred / (len(returns) - 1)
    return weights @ means / jnp.sqrt(weights @ cov @ weights)


def rebalanced(returns: Any, target: Any, cost: float) -> float:
    """The logarithm of the wealth of a portfolio that is brought back to its target each day, at a cost."""
    days, n = returns.shape
    held = target.copy()
    wealth = 1.0
    for t in range(days):
        value = 0.0
        for i in range(n):
            held[i] *= 1.0 + returns[t, i]
            value += held[i]
        wealth *= value
        turnover = 0.0
        for i in range(n):
            share = held[i] / value
            if abs(share - target[i]) > 0.002:
                turnover += abs(share - target[i])
                held[i] = target[i]
            else:
                held[i] = share
        wealth *= 1.0 - cost * turnover
    return math.log(wealth)


def rebalanced_log(returns: Any, target: Any, cost: float) -> float:
    held = target
    total = 0.0
    for day in returns:
        grown = held * (1.0 + day)
        value = np.sum(grown)
        share = grown / value
        off = np.abs(share - target)
        moved = off > 0.002
        total += np.log(value) + np.log(1.0 - cost * np.sum(np.where(moved, off, 0.0)))
        held = np.where(moved, target, share)
    return total


def rebalanced_new_array(returns: Any, target: Any, cost: float) -> float:
    days, n = returns.shape
    held, wealth, t = target, 1.0, 0
    while t < days:
        new = np.zeros(n)
        for i in range(n):
            new[i] = held[i] * (1.0 + returns[t, i])
        value = np.sum(new)
        turnover = 0.0
        for i in range(n):
            new[i] /= value
            off = abs(new[i] - target[i])
            if off > 0.002:
                turnover += off
                new[i] = target[i]
        wealth = wealth * value * (1.0 - cost * turnover)
        held = new
        t += 1
    return math.log(wealth)


def rebalanced_helper(returns: Any, target: Any, cost: float) -> float:
    def moved(share: Any, wanted: Any) -> Any:
        off = abs(share - wanted)
        return (wanted, off) if off > 0.002 else (share, 0.0)
    held = target.copy()
    wealth = 1.0
    for t in range(len(returns)):
        held *= 1.0 + returns[t]
        value = held.sum()
        held /= value
        turnover = 0.0
        for i in range(len(held)):
            held[i], off = moved(held[i], target[i])
            turnover += off
        wealth *= value * (1.0 - cost * turnover)
    return math.log(wealth)


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(7)
    curve = 0.02 + 0.0003 * np.arange(40) + rng.normal(0.0, 0.001, (120, 40))
    returns = rng.normal(0.0005, 0.01, (800, 24))
    weights = rng.uniform(0.5, 1.5, 24)
    weights /= weights.sum()
    yield from of_programs(bench, "portfolio", [
        Ordinary(bootstrap, (curve, 0.04), (0, 1), {
            "scratch": bootstrap_scratch, "slices": bootstrap_slices, "all": bootstrap_all}, adjoint=True),
        Ordinary(sharpe, (returns[:400], weights), (0, 1), {
            "days outside": sharpe_days_outside, "scalar": sharpe_scalar, "NumPy": sharpe_numpy},
                 adjoint=True, jax=sharpe_jax),
        Ordinary(rebalanced, (5.0 * returns, weights, 0.01), (1, 2), {
            "log": rebalanced_log, "new array": rebalanced_new_array, "helper": rebalanced_helper}, adjoint=True)])
