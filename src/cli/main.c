/* The ringtmp command: finds the given command, reads its command line and runs it. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/option.h"
#include "cli/commands.h"
#include "cli/text.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMANDS = 7 };
static const struct rt_command *const commands[COMMANDS] = {
    &rt_command_train, &rt_command_node, &rt_command_eval,   &rt_command_predict,
    &rt_command_plan,  &rt_command_list, &rt_command_keygen,
};

int rt_exit_error(const struct rt_error *err) {
    fputs("ringtmp: ", stderr);
    rt_text_sentence(stderr, err->text);
    fputc('\n', stderr);
    return err->status == RT_BAD_INPUT ? RT_EXIT_USAGE : RT_EXIT_FAILED;
}

void rt_print_notice(void *unused, const char *sentence) {
    (void)unused;
    fputs("ringtmp: note: ", stderr);
    rt_text_sentence(stderr, sentence);
    fputc('\n', stderr);
}

static void main_print_help(FILE *out, const char *program) {
    fprintf(out,
            "RingTMP trains neural networks with results that are exact: the same bits on every machine.\n\n"
            "usage: %s COMMAND ...\n\ncommands:\n",
            program);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s%s\n", commands[i]->name, commands[i]->summary);
    fprintf(out,
            "\n`%s COMMAND --help` explains a command; --version tells the version.\n\n"
            "A first run, from the directory of the sources:\n"
            "  %s train examples/fashion-mlp.yaml\n",
            program, program);
}

static const struct rt_command *main_find_command(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int main_fail_command(const char *word) {
    const char *names[COMMANDS + 3] = {"help", "version"};
    for (size_t i = 0; i < COMMANDS; i++)
        names[i + 2] = commands[i]->name;
    struct rt_error err;
    const char *what = word[0] == '-' ? "option" : "command";
    const char *near = rt_nearest(word + strspn(word, "-"), names);
    if (near)
        rt_fail(&err, RT_BAD_INPUT, "unknown %s '%s'; did you mean '%s%s'?", what, word,
                word[0] == '-' ? "--" : "", near);
    else
        rt_fail(&err, RT_BAD_INPUT, "unknown %s '%s'; `ringtmp --help` lists the commands", what, word);
    return rt_exit_error(&err);
}

static int main_run_command(const struct rt_command *command, const char *program, int argc, char **argv,
                            double start) {
    struct rt_error err;
    void *settings;
    if (rt_alloc(1, command->settings_bytes, "the command line", &settings, &err) != RT_OK)
        return rt_exit_error(&err);
    struct rt_invocation invocation = {
        .program = program, .argc = argc, .argv = argv, .start = start, .settings = settings};
    bool help;
    int code = RT_EXIT_DONE;
    if (rt_args_parse(command, argc, argv, settings, &invocation.operands, &help, &err) != RT_OK)
        code = rt_exit_error(&err);
    else if (help)
        rt_args_help(stdout, program, command);
    else
        code = command->run(&invocation);
    rt_args_deinit(command, settings, &invocation.operands);
    free(settings);
    return code;
}

static int main_dispatch(int argc, char **argv, double start) {
    const char *program = argc > 0 && argv[0][0] ? argv[0] : "ringtmp";
    if (argc < 2) {
        main_print_help(stderr, program);
        return RT_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
        puts("ringtmp " RT_VERSION);
        return RT_EXIT_DONE;
    }
    bool asks = strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
    if (asks && argc == 2) {
        main_print_help(stdout, program);
        return RT_EXIT_DONE;
    }
    const struct rt_command *command = main_find_command(asks ? argv[2] : word);
    if (!command)
        return main_fail_command(asks ? argv[2] : word);
    if (asks) {
        rt_args_help(stdout, program, command);
        return RT_EXIT_DONE;
    }
    return main_run_command(command, program, argc - 2, argv + 2, start);
}

/* Opens /dev/null for a standard stream that is closed: otherwise the next file opened, perhaps the model,
 * would get its number, and messages would be written into it. */
static void main_open_standard_streams(void) {
    int file;
    do
        file = open("/dev/null", O_RDWR);
    while (file >= 0 && file <= STDERR_FILENO);
    if (file >= 0)
        close(file);
}

/* True when the reader of our output is gone (`ringtmp list layers | head`), which is not a failure. */
static bool main_reader_is_gone(void) {
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP));
}

/* Data and models are mapped: when their file is cut short or its disk fails, reading them raises a signal.
 * The run cannot go on, but it can say why. */
static void main_on_bus_error(int number) {
    static const char message[] =
        "\nringtmp: a file that is in use could not be read: it was cut short, or its disk has failed. A "
        "run can go on from its last checkpoint with --resume, once the file is whole again\n";
    (void)number;
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    _exit(RT_EXIT_FAILED);
}

int main(int argc, char **argv) {
    double start = rt_clock_wall();
    main_open_standard_streams();
    signal(SIGBUS, main_on_bus_error);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond a limit on the size of files fails, and is reported */
    int code = main_dispatch(argc, argv, start);
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (!written && !main_reader_is_gone()) {
        fputs("ringtmp: the output could not be written; is the disk full?\n", stderr);
        return code == RT_EXIT_DONE ? RT_EXIT_FAILED : code;
    }
    return code;
}
