# A small table to learn from, the same on every machine: whole numbers from a fixed sequence, and a class that
# depends on them. Sourced by the scripts in tests/cli.

make_table() { # ROWS FEATURES CLASSES: CSV with a header; the last column is the class
    awk -v rows="$1" -v features="$2" -v classes="$3" 'BEGIN {
        state = 12345
        for (j = 1; j <= features; j++) printf "x%d,", j
        print "label"
        for (i = 0; i < rows; i++) {
            class = i % classes
            for (j = 0; j < features; j++) {
                state = (state * 1103 + 12347) % 65536
                printf "%d,", int(state / 512) + (j % classes == class ? 90 : 0)
            }
            print class
        }
    }'
}
