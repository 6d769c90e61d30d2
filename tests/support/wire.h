/* What the tests of encoded bytes share: golden files, and bytes that were cut or changed on the way. */
#ifndef RT_TEST_WIRE_H
#define RT_TEST_WIRE_H

#include "base/status.h"
#include <stdint.h>

/* Decodes bytes and, when they are accepted, encodes the outcome again into out, of *used bytes. */
typedef rt_status (*rt_recode)(const uint8_t *bytes, size_t count, uint8_t *out, size_t room, size_t *used,
                               struct rt_error *err);

/* The golden file tests/golden/wire/<name>.bin must be exactly these bytes. */
void rt_check_golden(const char *name, const uint8_t *bytes, size_t count);

/* The bytes must be accepted and come back the same. */
void rt_check_recode(const char *name, const uint8_t *bytes, size_t count, rt_recode recode);

/* The bytes must be refused with a sentence that contains words. */
void rt_check_refused(const char *name, const uint8_t *bytes, size_t count, rt_recode recode,
                      const char *words);

/* Every shorter piece of the bytes must be refused with a sentence, and one byte more too; with any bits of
 * one byte changed they are refused, or accepted and come back as they are. */
void rt_check_abuse(const char *name, const uint8_t *bytes, size_t count, rt_recode recode);

#endif
