/* Runs the simulator's scheduler without Python: threads exchange numbers at barriers and by shuffles.
   fields.h has the fields of the state and of records as numbers, and the sizes of stacks. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "fields.h"

extern void run(int64_t *state) __asm__("gpu.run");
extern void wait(int64_t *state, int site) __asm__("gpu.wait");
extern int64_t exchange(int64_t *state, int site, int64_t operation, int64_t value, int64_t operand)
    __asm__("gpu.exchange");

static int64_t state[FIELDS], records[64 * RECORD], shared[64], out[64];

static void *save(void) { return state; }
static void restore(void *python) { if (python != state) abort(); }
static int signals(void) { return 0; }

static void kernel(void *args) {
    int64_t t = state[thread];
    double x = 0.5 * t;                                    /* lives in a register that a switch has to preserve */
    for (int k = 0; k < 3; k++) {
        shared[t] = t + k;
        wait(state, 1);
        x += shared[(t + 1) % 64];
        wait(state, 2);
    }
    out[t] = (int64_t)(4 * x) + 1000 * exchange(state, 3, 0, t, 1);
}

int main(void) {
    char *stacks = malloc(65L * STRIDE);
    state[block_size] = 64, state[grid] = 1, state[entry] = (int64_t)kernel, state[fibers] = (int64_t)records;
    state[stacks_] = ((int64_t)stacks + 4095) & -4096;
    state[shared_] = (int64_t)shared, state[shared_bytes] = sizeof shared;
    state[save_] = (int64_t)save, state[restore_] = (int64_t)restore, state[signals_] = (int64_t)signals;
    run(state);
    for (int t = 0; t < 64; t++) printf("%lld ", (long long)out[t]);
    printf("failure %lld\n", (long long)state[failure]);
    return 0;
}
