# Runs that lose a device at any moment, as failures.py draws them, one after another with the same nodes. After each: the result of
# an undisturbed run, and nothing left behind: no process, no socket, no file, no memory. Sourced after lib.sh, and after
# namespaces.sh where the nodes are to be in namespaces of their own.
#
#     fail_at_random KIND COUNT UPDATES     so many failures of a kind of failures.py, in runs of so many updates
export TMPDIR="$work/temporary" RT_FAILURES="$work" # what the processes of this test write, and what tells them from others
mkdir "$TMPDIR"
most_memory=24 # MiB that a node may have more than after its first run

# of_this_test: the ids of all ringtmp processes that were started here, directly or not
of_this_test() {
    local process
    for process in $(pgrep -x ringtmp); do
        tr '\0' '\n' 2>/dev/null <"/proc/$process/environ" | grep -qx "RT_FAILURES=$work" && ! not_alive "$process" && echo "$process"
    done
}

# failure_node PLACE: starts the node of a place at its address
failure_node() {
    local i=$1
    if [ -n "${in:-}" ]; then
        : >"node$i.out"
        $in-$((i + 1)) "$RINGTMP" node --listen "${at[i]:-${ring[i + 1]}:7117}" --threads 1 --name "node-$i" --insecure \
            >"node$i.out" 2>"node$i.err" &
        pid=$!
        children+=("$pid")
        wait_for "node$i.out" "listening at" || exit 1
        at[i]="${ring[i + 1]}:7117"
    else
        start_node "node$i" --name "node-$i" ${at[i]:+--listen "${at[i]}"}
        at[i]="127.0.0.1:$port"
    fi
    node[i]=$pid memory[i]=0
    sockets[i]=$(open_files "$pid")
}
open_files() { ls "/proc/$1/fd" | wc -l; }
memory_of() { awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$1/status"; }

# The settings of a strategy; what one device computes is that of a run of `sgd` with them
settings_of() {
    case $1 in
    ring) echo --set cluster.plan=even ;;
    ring-one) echo --set cluster.plan=even --set train.batch=1 ;;
    ps-sync | allreduce-rd) echo --set train.shards=4 ;;
    esac
}
# Two rings share each batch: one device does so with two shards.
strategy_of() { case $1 in hybrid) echo hybrid,rings=2 ;; *) echo "$1" ;; esac; }
start_failures() {
    local strategy
    recover=true
    write_models
    sed -i "s/updates: 12/updates: $1, epochs: 1000000000, checkpoint_seconds: 0.1/; s/, plan: even/, wait_master: 15/
        s/  train: {idx: \[images, labels\]}/&\n  test: {idx: [images, labels]}/" dropout.yaml
    for strategy in ring ring-one ps-sync; do
        run 0 train dropout.yaml --out "whole-$strategy" --strategy sgd --quiet $(settings_of $strategy)
    done
    cp -r whole-ps-sync whole-allreduce-rd # the same order of additions
    run 0 train dropout.yaml --out whole-hybrid --strategy sgd --quiet --set train.shards=2
    node=() at=() sockets=() memory=()
    for i in 0 1 2; do failure_node $i; done
}

# failure_master DIRECTORY WORD...: the run in the background; its id is $master
failure_master() {
    local directory=$1
    shift
    if [ -n "${in:-}" ]; then
        $in-0 "$RINGTMP" train dropout.yaml --out "$directory" --quiet --node "${at[0]}" --node "${at[1]}" --node "${at[2]}" "$@" \
            >run.out 2>run.err &
        pid=$!
        children+=("$pid")
    else
        start_master run dropout.yaml --out "$directory" --quiet --node "${at[0]}" --node "${at[1]}" --node "${at[2]}" "$@"
    fi
    master=$pid
}

# is_idle PLACE: the node has what it had before the first run, and says so to nobody
is_idle() { [ "$(open_files "${node[$1]}")" -le "${sockets[$1]}" ]; }

# nodes_of JOURNAL: how many devices the last event that tells of them names, and the least that one ever named
nodes_of() {
    sed -n 's/.*"event": "\(recovery\|view\)".*"nodes": \([0-9]*\).*/\2/p' "$1" |
        awk 'BEGIN { least = last = 4 } { last = $1; if ($1 < least) least = $1 } END { print last, least }'
}

# A node that was cut off until the end of the run before waits for its master: for as long, the next one tries again.
starts_when_free() {
    holds $name/journal.jsonl '"event": "first_step"' && return
    not_alive "$master" && holds run.err "is busy: it waits for the master of a run" &&
        failure_master $name --strategy "$(strategy_of "$strategy")" $(settings_of "$strategy")
    return 1
}

# try_failure WORD...: one line of failures.py
try_failure() {
    local strategy='' fault='' who='' at_second='' seconds='' back='' word name=run-failure places i before
    for word in "$@"; do
        case $word in
        strategy=*) strategy=${word#*=} ;;
        fault=*) fault=${word#*=} ;;
        who=*) who=${word#*=} ;;
        at=*) at_second=${word#*=} ;;
        for=*) seconds=${word#*=} ;;
        back=*) back=${word#*=} ;;
        *) fail "unknown word '$word'" ;;
        esac
    done
    before=$failures
    rm -rf $name
    failure_master $name --strategy "$(strategy_of "$strategy")" $(settings_of "$strategy")
    until_true 90 starts_when_free || fail "does not start: $(cat run.err)"
    sleep "$at_second"
    places=${who//,/ }
    case $fault-$who in
    kill-m)
        { kill -KILL "$master" && wait "$master"; } 2>/dev/null
        failure_master $name --resume --strategy "$(strategy_of "$strategy")" $(settings_of "$strategy")
        ;;
    kill-*)
        destroy $(for i in $places; do echo "${node[i]}"; done)
        if [ "$back" != 0 ]; then
            sleep "$back"
            for i in $places; do failure_node "$i"; done
        fi
        ;;
    stop-m)
        kill -STOP "$master"
        sleep "$seconds"
        kill -CONT "$master"
        ;;
    stop-*)
        kill -STOP $(for i in $places; do echo "${node[i]}"; done)
        sleep "$seconds"
        kill -CONT $(for i in $places; do echo "${node[i]}"; done)
        ;;
    *)
        for i in $places; do cut "$fault" $((i + 1)); done
        if [ "$seconds" != 0 ]; then
            sleep "$seconds"
            for i in $places; do mend "$fault" $((i + 1)); done
        fi
        ;;
    esac
    ends "$master" 0 180
    check_result
    [ "$seconds" != 0 ] || case $fault in kill | stop) ;; *) for i in $places; do mend "$fault" $((i + 1)); done ;; esac
    for i in 0 1 2; do not_alive "${node[i]}" && failure_node $i; done
    check_leaks
    [ "$failures" -eq "$before" ] || {
        echo "to try it again: FAILURES='$*' bash $0" >&2
        cat run.err >&2
        kept=$((${kept:-0} + 1))
        [ -z "${FAILURES_KEEP:-}" ] || cp -r . "$FAILURES_KEEP/$kept"
    }
    printf '%s: %s nodes at the end, %s recoveries, %s updates made again\n' "$*" "$(field nodes $name/summary.json)" \
        "$(field recoveries $name/summary.json)" "$(field replayed_updates $name/summary.json)"
}

# The result is that of an undisturbed run; of all devices those took part that were not lost
check_result() {
    local last least lost=0
    [ -e $name/summary.json ] || {
        fail "no summary"
        return
    }
    case $fault-$who in
    kill-m) [ "$strategy" != hybrid ] || lost=1 ;; # of a ring that misses its former master late, and comes back
    stop-m) lost=3 ;; # a master that was stopped may find that nobody has waited
    *) lost=$(wc -w <<<"$places") ;;
    esac
    read -r last least <<<"$(nodes_of $name/journal.jsonl)"
    [ "$(field nodes $name/summary.json)" = "$last" ] || fail "$(field nodes $name/summary.json) nodes, the journal says $last"
    [ "$least" -ge $((4 - lost)) ] || fail "only $least nodes took part: $lost were lost"
    # the nodes have given it up by then: every bound on silence is below 6 s
    [ "$fault-$who-$seconds" != stop-m-6 ] || [ "$(field recoveries $name/summary.json)" -ge 1 ] || fail "no recovery"
    [ "$fault-$who-$back" != kill-m-0 ] || [ "$last" = 4 ] || fail "$last nodes after the master was started again"
    case $fault-$who-$back in
    kill-m-*) ;;
    kill-*-0) [ "$last" = $((4 - lost)) ] || fail "$last nodes, and $lost were killed" ;;
    esac
    [ "$(field updates $name/summary.json)" = "$(field updates whole-ring/summary.json)" ] || fail "not all updates"
    case $strategy in
    ring | ring-one | ps-sync | allreduce-rd | hybrid) same "$strategy" "whole-$strategy" $name ;;
    *)
        [ "$(field samples $name/summary.json)" = "$(field samples whole-ring/summary.json)" ] || fail "other examples"
        awk -v ours="$(field test_accuracy $name/summary.json)" -v whole="$(field test_accuracy whole-ring/summary.json)" \
            'BEGIN { exit !(ours >= whole - 0.01) }' || fail "test accuracy $(field test_accuracy $name/summary.json)"
        ;;
    esac
}

check_leaks() {
    local i process now
    for i in 0 1 2; do
        # one that was stopped until the end of the run has heard of the end of its view only: it waits 60 s for the next
        until_true 75 is_idle $i || fail "node $i has $(open_files "${node[i]}") open files, not ${sockets[i]}: $(ls -l "/proc/${node[i]}/fd")"
        now=$(memory_of "${node[i]}")
        [ "${memory[i]}" != 0 ] || memory[i]=$now
        [ "$now" -le $((memory[i] + most_memory)) ] || fail "node $i has $now MiB, after its first run ${memory[i]} MiB"
    done
    for process in $(of_this_test); do
        case " ${node[*]} " in *" $process "*) ;; *) fail "process $process is left: $(tr '\0' ' ' <"/proc/$process/cmdline")" ;; esac
    done
    [ -z "$(ls -A "$TMPDIR")" ] || fail "files are left: $(ls -lA "$TMPDIR")"
    [ -z "$(find $name -name '*.part' -o -name '*.tmp' 2>/dev/null)" ] || fail "parts of files are left in $name"
}

fail_at_random() {
    local line seed=${FAILURES_SEED:-$RANDOM}
    if [ -n "${FAILURES:-}" ]; then
        echo "$FAILURES" >cases
    else
        echo "FAILURES_SEED=$seed"
        python3 "$tests/failures.py" "$seed" "$2" "$1" >cases
        # The master wakes after every bound on silence: nothing but this needs 6 s.
        [ "$1" != quick ] || echo "strategy=$([ $((seed % 2)) = 0 ] && echo ring || echo ps-sync) fault=stop who=m at=0.300 for=6 back=0" >>cases
    fi
    start_failures "$3"
    while read -r -u 9 line; do try_failure $line; done 9<cases
}
