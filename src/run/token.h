/*
 * The token of a run: what its nodes know its master by when it has been started again (wire/message.h). It
 * lies beside the checkpoint, in a file that only its owner can read, until the run is done.
 */
#ifndef RT_RUN_TOKEN_H
#define RT_RUN_TOKEN_H

#include "wire/message.h"

/* The token of the run that has this directory for checkpoints, which is made if need be; a new one where
 * there is none or it is damaged. RT_IO: it cannot be kept. */
rt_status rt_token_take(const char *checkpoint_dir, uint8_t token[RT_TOKEN_BYTES], struct rt_error *err);
void rt_token_remove(const char *checkpoint_dir);

#endif
