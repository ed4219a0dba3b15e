/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka with the headers that it wants before it. Tests use checks that survive NDEBUG. */
#ifndef DP_TESTS_UNIT_H
#define DP_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* cmocka 2 has one for each sign, and calls the one that 1 has deprecated. */
#ifdef assert_uint_in_range
#undef assert_in_range
#define assert_in_range assert_uint_in_range
#endif

/* How many of n random instances are tried. A sanitizer makes a test five times slower and looks for other faults: a sixth of
 * them, where the tests of a folder together reach every line and branch as before. Sums that a test asserts are scaled alike. */
#ifdef DP_SANITIZED
#define DP_INSTANCES(n) ((n) / 6)
#else
#define DP_INSTANCES(n) (n)
#endif

/* main() of a test file: TEST_MAIN(name, tests) with a static array of struct CMUnitTest. */
#define TEST_MAIN(name, tests)                                                                     \
    int main(void)                                                                                 \
    {                                                                                              \
        return cmocka_run_group_tests_name(name, tests, NULL, NULL);                               \
    }

#endif
