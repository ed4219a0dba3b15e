/* SPDX-License-Identifier: BSD-3-Clause */
/* A mask for bench_linear, from whatever file the command line names. What is read is written the same again.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "kernels/bench/mask.h"

const char fuzz_name[] = "fuzz_mask";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct bench_mask m, again;
    const char *path = fuzz_file(data, bytes);

    if (bench_mask_read(path, &m, NULL) < 0)
        return 0;
    if (m.rows < 1 || m.cols < 1 || m.rows * m.cols > BENCH_MASK_MAX ||
        m.nnz != dp_bits_count(m.keep, m.rows * m.cols))
        fuzz_die("a mask is out of range");
    (void)bench_mask_block_rows(&m);
    if (bench_mask_write(&m, path, NULL) < 0 || bench_mask_read(path, &again, NULL) < 0)
        fuzz_die("a mask is not written and read again");
    if (again.rows != m.rows || again.cols != m.cols ||
        memcmp(again.keep, m.keep, dp_bits_words(m.rows * m.cols) * sizeof *m.keep))
        fuzz_die("a mask is another one when it is read again");
    bench_mask_release(&m);
    bench_mask_release(&again);
    return 0;
}

void fuzz_make_seeds(void)
{
    fuzz_seed_text("P1\n# a comment\n3 4\n1 0 1\n010\n1 1 1 000\n");
    fuzz_seed_text("P1 1 1 0");
    fuzz_seed_text("P4 7 2\nab");
    fuzz_seed_text("P4\n#\n16 1\nab");
}
