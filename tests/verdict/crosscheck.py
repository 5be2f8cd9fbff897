"""crosscheck.py FIGURES - the figures of tests/verdict/figures.c against scipy, statsmodels and arch.

Run by `make crosscheck`. The last line is "N passed, N failed".
"""
import subprocess
import sys

import numpy as np
from arch.bootstrap import CircularBlockBootstrap, optimal_block_length
from scipy import integrate, optimize, stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

lines = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout.splitlines()
ours = dict(line.split(" ", 1) for line in lines)
passed = failed = 0


def check(name, theirs, tolerance=1e-9, value=None):
    global passed, failed
    value = float(ours[name]) if value is None else value
    good = abs(value - theirs) <= tolerance * max(abs(theirs), 1e-300)
    passed, failed = passed + good, failed + (not good)
    print(f"{'ok' if good else 'FAILED':6} {name:16} {value:.15g}  {theirs:.15g}")


steps = 400
x = np.zeros(steps)
for i in range(steps):
    x[i] = (0.8 * x[i - 1] if i else 0) + np.sin((i + 1.0) ** 2)
t = np.arange(steps)
baseline = 2 + np.exp(-t / 50)
candidate = baseline + 0.002 * x + np.where(t < 250, 0, 0.02)

lags = int(4 * (steps / 100) ** (2 / 9))
hac = OLS(x, np.ones(steps)).fit(cov_type="HAC", cov_kwds={"maxlags": lags, "use_correction": False})
check("newey_west", hac.bse[0])
block = optimal_block_length(x)["circular"].iloc[0]
check("block_length", block)
bootstrap = CircularBlockBootstrap(int(np.ceil(block)), x, seed=1)
means = bootstrap.apply(lambda y: np.array([y.mean()]), 40000)
check("bootstrap", means.std(), 0.015)
check("slope", stats.linregress(t, x).slope)
check("quantile", stats.t.ppf(0.975, 3.7))

a = np.array([2.1000, 2.1004, 2.0998, 2.1002, 2.1010])
b = np.array([2.1030, 2.1076, 2.1043])
margin = 0.01
welch = stats.ttest_ind(b, a, equal_var=False)
dof = min(2 / (1 / welch.df + 1 / (len(b) - 1)), 4 / 3 * (len(b) - 1))
gap = b.mean() - a.mean()
error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
check("welch_t", welch.statistic, 1e-8)
check("welch_dof", dof, 1e-8)
check("welch_inside", stats.t.sf((margin - gap) / error, dof), 1e-8)
check("welch_outside", stats.t.sf((gap - margin) / error, dof) + stats.t.sf((gap + margin) / error, dof), 1e-8)


def enough(n):
    dof = 4 / 3 * (n - 1)
    return stats.t.ppf(0.95, dof) + stats.t.ppf(0.9, dof) <= margin / np.sqrt(2e-4 / n)


check("runs_needed", next(n for n in range(2, 1000) if enough(n)))

paired = candidate[:40] - baseline[:40]
inside = ttost_paired(candidate[:40], baseline[:40], -0.0005, 0.0005)[0]
error = paired.std(ddof=1) / np.sqrt(40)
check("paired_inside", inside, 1e-8)
check("paired_outside", stats.t.sf((abs(paired.mean()) - 0.0005) / error, 39)
      + stats.t.sf((abs(paired.mean()) + 0.0005) / error, 39), 1e-8)
low, high = stats.t.interval(0.9, 39, paired.mean(), error)
check("paired_low", low, 1e-8)
check("paired_high", high, 1e-8)

for i, p in enumerate(multipletests([0.01, 0.04, 0.03, 0.005, 0.6], method="holm")[1]):
    check(f"holm_{i}", p)

# The boundary is where the mixture of likelihood ratios over normal effects, integrated, reaches 1 / level.
start = 400 / (2 * np.log(20) + np.log(1 + 2 * np.log(20)))


def mixture(total):
    ratio = lambda effect: np.exp(effect * total - effect**2 * 100 / 2) * stats.norm.pdf(effect, 0, start**-0.5)
    return integrate.quad(ratio, -3, 3, epsabs=1e-12, limit=500)[0]


check("mixture", optimize.brentq(lambda total: mixture(total) - 20, 1, 100) / 100, 1e-6)

# The self-normalised statistic as its definition reads, without prefix sums.
d = candidate - baseline
largest = 0
for k in range(1, steps):
    left, right = d[:k], d[k:]
    partial = np.cumsum(left) - np.arange(1, k + 1) / k * left.sum()
    back = np.cumsum(right[::-1]) - np.arange(1, steps - k + 1) / (steps - k) * right.sum()
    noise = ((partial**2).sum() + (back**2).sum()) / steps**2
    largest = max(largest, (left - d.mean()).sum() ** 2 / steps / noise)
check("cusum", largest, 1e-8)
squared = [((d[:k] - d[:k].mean()) ** 2).sum() + ((d[k:] - d[k:].mean()) ** 2).sum() for k in range(20, steps - 19)]
check("onset", 1 + 20 + int(np.argmin(squared)))


def argmax_cdf(x):
    normal = stats.norm.cdf
    return (1 + np.sqrt(x / (2 * np.pi)) * np.exp(-x / 8) - (x + 5) / 2 * normal(-np.sqrt(x) / 2)
            + 1.5 * np.exp(x) * normal(-1.5 * np.sqrt(x)))


check("bai_quantile", optimize.brentq(lambda x: argmax_cdf(x) - 0.95, 1, 20), 1e-4, 7.687)

away = np.abs(d)
gate = ", ".join([
    f"MAE {away.mean():.4f}", f"RMSE {np.sqrt((d**2).mean()):.4f}", f"largest {away.max():.4f}",
    f"Pearson {stats.pearsonr(baseline, candidate)[0]:.4f}", f"Spearman {stats.spearmanr(baseline, candidate)[0]:.4f}",
    f"relative {100 * (away / baseline).mean():.3f} %",
    f"R^2 {1 - (d**2).sum() / ((baseline - baseline.mean()) ** 2).sum():.4f}"])
pooled = stats.ttest_ind(b[:2], a, alternative="greater")
rcp = f"2 against 5 runs, t = {pooled.statistic:.3g}, p = {pooled.pvalue:.2g}"
for name, theirs in (("xpu-gpu", gate), ("rcp", rcp)):
    good = ours[name] == theirs
    passed, failed = passed + good, failed + (not good)
    print(f"{'ok' if good else 'FAILED':6} {name}: {ours[name]}" + ("" if good else f" | {theirs}"))

print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
