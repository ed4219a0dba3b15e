/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC-32C (Castagnoli, reflected polynomial 0x82f63b78; RFC 3720 appendix B.4), used for journal
 * records, checkpoint files and hand-over chunks. Uses the SSE4.2 instruction where there is one. */
#ifndef DP_COMMON_CRC32C_H
#define DP_COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc: 0 for the first piece, the previous result for the next one.
 * dp_crc32c(0, "123456789", 9) == 0xe3069283. */
uint32_t dp_crc32c(uint32_t crc, const void *data, size_t bytes);

/* dp_crc32c(crc, data, bytes) from the CRCs, each begun with 0, of its pieces: `piece` bytes (not 0), the last one what is
 * left. */
uint32_t dp_crc32c_join(uint32_t crc, const uint32_t *piece_crc, size_t piece, size_t bytes);

#endif
