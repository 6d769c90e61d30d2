#!/usr/bin/env bash
# Where the workers of an exchange have their examples from: a copy of their own, which is checked and which is looked up
# only where the node allows it.
. "$(dirname "$0")/lib.sh"
write_models
sed -i '/^cluster:/d' ./*.yaml # what rings need
started=$SECONDS

# exchange NAME RUN NODES STRATEGY WORD...: an exchange's result goes to NAME
exchange() {
    local name=$1 file=$2 nodes=$3 strategy=$4
    shift 4
    rm -rf "$name"
    run 0 train "$file" --nodes "$nodes" --strategy "$strategy" --quiet --out "$name" "$@"
    [ "$(field nodes "$name/summary.json")" = "$nodes" ] || fail "$name: not on $nodes nodes"
}

# ---- data ----
# A node that runs elsewhere has its own copy, in the directory it was started in or was told.
mkdir -p elsewhere other/place wrong
cp images labels other/place
head -c 1000 /dev/zero | tr '\0' '\1' >wrong/noise
cp images wrong/images
cp labels wrong/labels
printf '\7' | dd of=wrong/images bs=1 seek=500 conv=notrunc 2>dd.err
(cd elsewhere && start_node a && echo "$pid $port" >../a) # without any
read -r pid_a port_a <a
children+=("$pid_a")
start_node b --data other/place
pid_b=$pid port_b=$port
start_node c --data wrong --name third
pid_c=$pid port_c=$port
exchange alone4 mlp.yaml 2 allreduce-rd --set train.shards=2
rm -rf result
run 0 train mlp.yaml --strategy allreduce-rd --node "127.0.0.1:$port_b" --quiet --out result --set train.shards=2
same "a node with data of its own" alone4 result
refuses 2 "(127.0.0.1:$port_a): " train mlp.yaml --strategy allreduce-rd --node "127.0.0.1:$port_a" --quiet --out refused
says err "there is no file './images'"
refuses 2 "third (127.0.0.1:$port_c): " train mlp.yaml --strategy ps-sync --node "127.0.0.1:$port_b" --node "127.0.0.1:$port_c" --quiet --out refused
says err "its training data differ from the master's"
# A name that leads out of the directory is not followed.
sed "s,\[images\, labels\],[../place/images\, labels]," mlp.yaml >upwards.yaml
mkdir -p place && cp images place
mkdir -p run && cp upwards.yaml labels run
refuses 2 "(127.0.0.1:$port_b): " train run/upwards.yaml --strategy ps-sync --node "127.0.0.1:$port_b" --quiet --out refused
says err "is not in other/place, the directory for data"
sed "s,\[images\, labels\],[$PWD/images\, labels]," mlp.yaml >absolute.yaml
refuses 2 "(127.0.0.1:$port_b): " train absolute.yaml --strategy ps-sync --node "127.0.0.1:$port_b" --quiet --out refused
says err "is not in other/place, the directory for data"
# Nothing was left behind by what was refused, and the nodes are still there.
[ ! -e refused ] || fail "a run that was refused has left its directory"
for process in "$pid_a" "$pid_b" "$pid_c"; do
    kill -0 "$process" || fail "a node is gone after a refusal"
    destroy "$process"
done

echo "all after $((SECONDS - started)) s"
finish
