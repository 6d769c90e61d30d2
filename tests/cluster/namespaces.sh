# Network namespaces 0 to $last_place (3) with an address each, joined by a bridge in one more, and cables that can be cut. Sourced
# after lib.sh.
# $in-N COMMAND runs it in namespace N, $in-bridge in that of the bridge; no function, whose id would not be the command's.
places_list=$(seq 0 "${last_place:-3}")
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "there is no ip command (iproute2)"
prefix=rt$$
ip netns add "$prefix-bridge" 2>err || skip "no network namespaces here: $(cat err)"
remove_all() {
    local i
    end_children
    for i in bridge $places_list; do ip netns del "$prefix-$i" 2>/dev/null; done
}
trap remove_all EXIT
in="ip netns exec $prefix"
ring=() # the addresses
build_network() {
    $in-bridge ip link add br0 type bridge stp_state 0 || return 1
    $in-bridge ip link set br0 up || return 1
    for i in $places_list; do
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
build_network 2>err || skip "a network of namespaces cannot be built here: $(cat err)"

# Frames of one direction get lost by an address of a card that nobody has. The system does not learn of it, as with a broken wire.
nobody=02:00:00:00:00:99
card() { $in-"$1" cat /sys/class/net/eth0/address; }

# cut HOW N: the cable of namespace N: both, from (what it sends is lost), to (what it is sent is lost); mend HOW N
cut() {
    local i
    case $1 in
    both) ip -n "$prefix-bridge" link set "port$2" down ;;
    from) for i in $places_list; do
        [ "$i" = "$2" ] || ip -n "$prefix-$2" neigh replace "${ring[i]}" lladdr $nobody nud permanent dev eth0
    done ;;
    to) for i in $places_list; do
        [ "$i" = "$2" ] || ip -n "$prefix-$i" neigh replace "${ring[$2]}" lladdr $nobody nud permanent dev eth0
    done ;;
    esac
}
mend() {
    local i
    case $1 in
    both) ip -n "$prefix-bridge" link set "port$2" up ;;
    from) for i in $places_list; do
        [ "$i" = "$2" ] || ip -n "$prefix-$2" neigh replace "${ring[i]}" lladdr "$(card "$i")" nud reachable dev eth0
    done ;;
    to) for i in $places_list; do
        [ "$i" = "$2" ] || ip -n "$prefix-$i" neigh replace "${ring[$2]}" lladdr "$(card "$2")" nud reachable dev eth0
    done ;;
    esac
}
