"""Constructs: derivatives inside programs, vmap, checkpoint, rules of the user's, random numbers."""

from __future__ import annotations

from tests.fuzzing.constructs.grammar import Construct, D, E, Kind, S

KINDS = [
    Kind("R", "random number generator", "{v}.random()", "", True),
    Kind("B", "pullback of a float function", "{v}(0.7)[0]"),
]

# Derivatives are taken slightly off existing values: at a tie (`max(z, s)` at s) differences deviate.
CONSTRUCTS: list[Construct] = [
    E("f", "grad", "grad(lambda {.z}: {f .z:f})({f} + 0.0137)", 1.5),
    E("f", "grad of a helper", "grad({@helper}, {?0|1})({f} + 0.0137, {f} - 0.0291)"),
    E("f", "grad of a function value", "grad({F})({f} + 0.0137)"),
    E("a", "grad by an array", "grad(lambda {.u}: {f .u:a})({a} + 0.0137)"),
    E("f", "grad of two arguments",
      "grad(lambda {.z}, {.w}: {f .z:f .w:f}, (0, 1))({f} + 0.0137, {f} - 0.0291)[{?0|1}]", 0.7),
    E("f", "grad by a name", "grad(lambda z, w: {f z:f w:f}, argnums='{?z|w}')({f} + 0.0137, {f} - 0.0291)", 0.3),
    E("f", "grad by a tuple", "grad(lambda {.t}: {f .t:t})(({f}, {a}))[0]", 0.5),
    E("f", "value_and_grad", "value_and_grad(lambda {.z}: {f .z:f})({f} + 0.0137)[{?0|1}]"),
    E("f", "grad with aux", "grad(lambda {.z}: ({f .z:f}, {f .z:f}), has_aux=True)({f} + 0.0137)[{?0|1}]", 0.3),
    E("f", "jvp", "jvp(lambda {.z}: {f .z:f}, ({f} + 0.0137,), ({f},))[{?0|1}]"),
    E("a", "jvp of an array", "jvp(lambda {.u}: {a .u:a}, ({a} + 0.0137,), ({a},))[1]", 0.7),
    E("f", "vjp", "vjp(lambda {.z}: {f .z:f}, {f} + 0.0137)[1]({f})[0]"),
    E("a", "vjp of an array", "vjp(lambda {.u}: {a .u:a}, {a} + 0.0137)[1]({a})[0]", 0.7),
    E("f", "hvp", "hvp(lambda {.z}: {f .z:f}, ({f} + 0.0137,), ({f},))", 0.5),
    E("a", "hvp of an array", "hvp(lambda {.u}: {f .u:a}, ({a} + 0.0137,), ({a},))", 0.4),
    E("f", "hessian", "hessian(lambda {.u}: {f .u:a})({a} + 0.0137)[{i}, {i}]", 0.4),
    E("f", "jacrev", "jacrev(lambda {.u}: {a .u:a})({a} + 0.0137)[{i}, {i}]", 0.4),
    E("f", "jacfwd", "jacfwd(lambda {.u}: {a .u:a})({a} + 0.0137)[{i}, {i}]", 0.4),
    E("f", "linearize", "linearize(lambda {.z}: {f .z:f}, {f} + 0.0137)[1]({f})", 0.4),
    E("F", "derivative as a function", "grad(lambda {.z}: {f .z:f})", 0.7),
    S("gradient step", "{.w=old f} = {.w} - 0.1 * grad(lambda {.z}: {f .z:f})({.w} + 0.0137)", 0.7),
    S("gradient step of an array", "{new a} = {.u=var a} - 0.1 * grad(lambda {.z}: {f .z:a})({.u} + 0.0137)", 0.5),
    E("B", "pullback", "vjp({F}, {f})[1]", needs="pullbacks"),
    E("B", "pullback of a constant", "vjp(math.sin, {num})[1]", 0.2, needs="pullbacks"),
    E("B", "pullback variable", "{var B}", 2, needs="pullbacks"),
    E("f", "call of a pullback", "{B}({f})[0]", needs="pullbacks"),
    S("pullback kept", "{new f}, {new B} = vjp(lambda {.z}: {f .z:f}, {f})", needs="pullbacks"),
    S("linear function kept", "{new f}, {new F} = linearize(lambda {.z}: {f .z:f}, {f} + 0.0137)", 0.5,
      needs="pullbacks"),
    S("pullback chosen at run time", "{.w=new B} = {B}\nif {c}:\n    {.w} = {B}", 0.5, needs="pullbacks"),
    S("pullback through a loop", "{.w=new B} = {B}\nfor {new i} in range({i}):\n    {old f} = {.w}({f})[0]\n"
                                 "    if {c}:\n        {.w} = {B}", 0.5, needs="pullbacks"),
    D("through", "back:B z:f", "def {name}(back, z):\n    {block}\n    return back(z)[0] * {f}"),
    E("f", "pullback as an argument", "{@through}({B}, {f})", 0.5, needs="pullbacks"),
    E("f", "stop_gradient", "stop_gradient({f})", 0.15, needs="stop_gradient"),
    E("a", "vmap", "vmap(lambda {.z}: {f .z:f})({a})", 1, needs="vmap"),
    E("a", "vmap over rows", "vmap(lambda {.u}: {f .u:a}, in_axes=1)(np.stack([{a}, {a}, {a}]))", 0.5, needs="vmap"),
    E("f", "vmap over a matrix", "vmap(lambda {.u}: {a .u:a})({m})[{i} % 2, {i}]", 0.5, needs="vmap"),
    E("f", "vmap with a constant", "vmap(lambda {.z}, {.w}: {f .z:f .w:f}, in_axes=(0, None))({a}, {f}).sum()", 0.5,
      needs="vmap"),
    E("a", "vmap of grad", "vmap(grad(lambda {.z}: {f .z:f}))({a})", 0.5, needs="vmap"),
    E("f", "checkpoint", "checkpoint(lambda {.z}: {f .z:f})({f})", 1, needs="checkpoint"),
    E("f", "checkpoint of a helper", "checkpoint({@kernel})({a}, {f}, {i})", 1, needs="checkpoint"),
    D("replacing", "z:f u:a", """
def {name}(z, u):
    s, k = 0.0, 1
    for j in range({?40|len(u)|k}):
        s {?+=|-=} math.{?sin|tanh}(z) * u[{?j|k} % 3]
        z = {?{num}|u[j % 3]|0.3 * (k % 4)|z * 0.5 + u[k % 3]|z if k < 2 else {num}}
        {?pass|k = (k * 5 + 1) % 7|s *= 0.5}
    return s
"""),
    E("f", "call that replaces its argument", "{@replacing}({f}, {a})", 0.5),
    E("f", "grad by an argument that is replaced", "grad({@replacing})({f} + 0.0137, {a})", 0.7),
    S("generator", "{new R} = default_rng({?7|{i}})", 1.5, needs="random"),
    S("generator of a stream", "{new R} = {var R}.fold_in({i})", 0.5, needs="random"),
    S("copied generator", "{new R} = {var R}.copy()", 0.5, needs="random"),
    E("f", "normal", "{mut R}.normal({f}, {?0.5|abs({f})})", 2, needs="random"),
    E("f", "uniform", "{mut R}.uniform({f}, 2.0)", 1.5, needs="random"),
    E("a", "normal array", "{mut R}.normal(size=3)", 1.5, needs="random"),
    E("i", "random integer", "{mut R}.integers(0, 3)", 2, needs="random"),
    S("shuffle", "{mut R}.shuffle({mut a})", 0.7, needs="random"),
    D("drawn", "z:f rng:R*", "def {name}(rng, z):\n    {block}\n    return rng.normal(z, 0.5)"),
    E("f", "draw in a helper", "{@drawn}({mut R}, {f})", 1.5, needs="random"),
    D("ruled", "", """
@custom_vjp
def {name}(z, w):
    return z * math.sin(w)


def {name}_fwd(z, w):
    return {name}(z, w), (z, w)


def {name}_bwd(kept, ct):
    z, w = kept
    return ct * math.sin(w), ct * z * math.cos(w)


{name}.defvjp({name}_fwd, {name}_bwd)
"""),
    E("f", "custom_vjp", "{@ruled}({f}, {f})", 1, needs="custom_vjp"),
    D("pushed", "", """
@custom_jvp
def {name}(z):
    return z * z * 0.5


@{name}.defjvp
def {name}_rule(primals, tangents):
    (z,), (dz,) = primals, tangents
    return z * z * 0.5, z * dz
"""),
    E("f", "custom_jvp", "{@pushed}({f})", 1, needs="custom_jvp"),
]
