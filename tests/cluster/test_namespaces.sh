#!/usr/bin/env bash
# Four nodes in four network namespaces, each with an address of its own, joined by a bridge in a fifth, where all that
# they say is captured. They learn what a single device does, to the bit; while they train nobody but neighbours
# exchanges a byte; and neither inputs nor labels are in what was captured (traffic.py).
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "there is no ip command (iproute2)"
prefix=rt$$
ip netns add "$prefix-bridge" 2>err || skip "no network namespaces here: $(cat err)"
remove_all() {
    local i
    end_children
    for i in bridge 0 1 2 3; do ip netns del "$prefix-$i" 2>/dev/null; done
}
trap remove_all EXIT
in="ip netns exec $prefix" # $in-N COMMAND runs it in namespace N; no function, whose id would not be the command's

# ---- the network ----
ring=()
build() {
    $in-bridge ip link add br0 type bridge stp_state 0 || return 1
    $in-bridge ip link set br0 up || return 1
    for i in 0 1 2 3; do
        ip netns add "$prefix-$i" || return 1
        ip -n "$prefix-bridge" link add "port$i" type veth peer name eth0 netns "$prefix-$i" || return 1
        ip -n "$prefix-bridge" link set "port$i" master br0 up || return 1
        ip -n "$prefix-$i" address add "10.77.0.$((i + 1))/24" dev eth0 || return 1
        ip -n "$prefix-$i" link set eth0 up || return 1
        ip -n "$prefix-$i" link set lo up || return 1
        # where there is a choice, the one that most machines have
        $in-"$i" sh -c 'echo cubic >/proc/sys/net/ipv4/tcp_congestion_control' 2>/dev/null
        ring+=("10.77.0.$((i + 1))")
    done
}
build 2>err || skip "a network of namespaces cannot be built here: $(cat err)"
addresses=$(IFS=, && echo "${ring[*]}")

# start_nodes WORD...: nodes 1 to 3 in their namespaces; their ids are in $nodes
start_nodes() {
    nodes=()
    for i in 1 2 3; do
        : >"node$i.out"
        $in-"$i" "$RINGTMP" node --listen "${ring[i]}:7117" --threads 1 "$@" >"node$i.out" 2>"node$i.err" &
        nodes+=($!)
        children+=($!)
    done
    for i in 1 2 3; do wait_for "node$i.out" "listening at ${ring[i]}:7117" || exit 1; done
}

# train DIRECTORY WORD...: on the ring of all four, the master in namespace 0, with all traffic in DIRECTORY.traffic
train() {
    local directory=$1 status=0
    shift
    : >capture.out
    $in-bridge python3 "$tests/capture.py" "$directory.traffic" br0 >capture.out 2>capture.err &
    local capture=$!
    children+=("$capture")
    wait_for capture.out capturing || exit 1
    $in-0 "$RINGTMP" train dropout.yaml --quiet --out "$directory" --node "${ring[1]}:7117" \
        --node "${ring[2]}:7117" --node "${ring[3]}:7117" "$@" >out 2>err || status=$?
    [ "$status" -eq 0 ] || fail "training in namespaces: status $status: $(cat err)"
    kill -TERM "$capture"
    ends "$capture" 0 30
    [ "$(field nodes "$directory/summary.json")" = 4 ] || fail "$directory: not on 4 nodes"
}

# The examples come in the order of the file, so that the labels of a micro-batch are known; the scale is one that
# changes no digit. A line of metrics goes round with every report.
write_models
sed -i 's/^data:/&\n  shuffle: false/; s/scale: .*/scale: 0.00390625/
    s/batch: 20, updates: 12/batch: 48, micro_batch: 16, updates: 40, report_seconds: 0, checkpoint_seconds: 0.05/' \
    dropout.yaml
run 0 train dropout.yaml --quiet --out alone --strategy sgd

# ---- in clear ----
start_nodes --insecure
train plain
same "four namespaces" alone plain
python3 "$tests/traffic.py" plain plain.traffic --ring "$addresses" --images images --labels labels \
    --scale 0.00390625 --micro-batch 16 || fail "what was captured, see above"
# Whoever would look for neighbours in another order would notice.
python3 "$tests/traffic.py" plain plain.traffic --ring "${ring[0]},${ring[2]},${ring[1]},${ring[3]}" >out 2>err &&
    fail "every pair of nodes passes as neighbours"
says err "bytes between nodes 0 and 2, which are not neighbours"
destroy "${nodes[@]}"

# ---- with a key ----
run 0 keygen cluster.key
start_nodes --key cluster.key
train secret --key cluster.key
same "four namespaces with a key" alone secret
python3 "$tests/traffic.py" secret secret.traffic --ring "$addresses" || fail "what was captured, see above"
finish
