/* The commands: one file each, one line each in main.c. */
#ifndef RT_CLI_COMMANDS_H
#define RT_CLI_COMMANDS_H

#include "cli/args.h"

extern const struct rt_command rt_command_train, rt_command_node, rt_command_eval, rt_command_predict,
    rt_command_plan, rt_command_list, rt_command_keygen;

/* 0 done, 1 the run failed, 2 bad usage or bad input. */
enum { RT_EXIT_DONE, RT_EXIT_FAILED, RT_EXIT_USAGE };

/* Prints "ringtmp: <message>" on the error stream, in one line without terminal control characters, and
 * returns the matching exit status. */
int rt_exit_error(const struct rt_error *err);

/* An rt_notice_fn: prints "ringtmp: note: <message>" in the same way. */
void rt_print_notice(void *unused, const char *sentence);

#endif
