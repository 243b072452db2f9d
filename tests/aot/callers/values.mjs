// As values.c, for a WebAssembly module.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const wasi = new WASI({ version: "preview1" });
const module = await WebAssembly.compile(await readFile(process.argv[2]));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
wasi.initialize(instance);

const c = instance.exports, N = 23, n = BigInt(N);
const floats = (p, count) => new Float64Array(c.memory.buffer, p, count);
const text = p => {
    const bytes = new Uint8Array(c.memory.buffer, p);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
};
const [w, x, y, value, g, walked] = [2, N, N, 1, 2, N].map(count => c.malloc(8 * count));
floats(w, 2).set([0.7, 0.1]);
for (let i = 0; i < N; i++) {
    const v = i / 11 - 1;
    floats(x, N)[i] = v;
    floats(y, N)[i] = v / (1 + v * v);
}
if (c.curve_grad(w, 2n, x, n, y, n, value, g) !== 0 || c.walk(3n, x, n, walked, n) !== 0) process.exit(1);
console.log([...floats(value, 1), ...floats(g, 2), ...floats(walked, N)].join(" "));
const deep = c.depth(100000000n, 1.0, value), outside = c.pick(x, n, 99n, value);
console.log(deep & 255, outside & 255, text(c.jitad_strerror(outside)));
