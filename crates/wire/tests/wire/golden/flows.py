#!/usr/bin/env python3
"""Prints flows.tsv: what tshark makes of the captures named below.

    cd TRAFFIC && python3 flows.py > flows.tsv        (made with TShark 4.0.17)

For each capture, of each IP packet the first IP header (`outer`; it may stand behind MPLS or PPPoE)
or the last one (`innermost`), counted by addresses, ports, protocol and VLAN tags. The layers are
taken from PDML in their order; what an ICMP error quotes is nested in the ICMP layer there, and so
left out. Reassembly is off, so that each fragment is a packet of its own. Not in the lists: captures
with source routes or damaged options, where tshark shows other addresses or gives up.
"""
import collections, subprocess, sys, xml.etree.ElementTree as ET

OFF = ["ip.defragment", "ipv6.defragment", "tcp.desegment_tcp_streams", "tcp.analyze_sequence_numbers"]

OUTER = """
pcapplusplus/VlanPackets.pcap pcapplusplus/QinQ_802.1_AD.pcapng zeek/vlan-qinqinq.pcap
pcapplusplus/SllPacket.pcap pcapplusplus/Sll2Packet.pcap zeek/linux_dlt_sll2.pcap
pcapplusplus/NullLoopback.pcap pcapplusplus/raw_ip.pcap pcapplusplus/linktype_ipv4.pcap
pcapplusplus/linktype_ipv6.pcap zeek/snap-tcp.pcap pcapplusplus/ip4_fragments.pcap
pcapplusplus/ip6_fragments.pcap pcapplusplus/ipv6_options.pcap zeek/ipv6-hbh-routing0.pcap
zeek/ipv6-http-atomic-frag.pcap pcapplusplus/packet_trailer.pcap
zeek/communityid__sctp.pcap zeek/chksums__ip6-route0-icmp6-good-chksum.pcap
pcapplusplus/frag_with_padding.pcap zeek/tunnels__4in6.pcap
pcapplusplus/MplsPackets.pcap pcapplusplus/PPPoESession.pcap zeek/mixed-vlan-mpls.pcap
zeek/mpls-in-vlan.pcap zeek/pppoe-over-qinq.pcap zeek/pppoe.pcap zeek/ppp__quic-interop-retry.pcap
tcpdump/mpls-traceroute.pcap tcpdump/lspping-fec-ldp.pcap tcpdump/wb-oobr.pcap
""".split()

INNERMOST = """
pcapplusplus/GrePackets.cap pcapplusplus/GrePackets.pcap zeek/erspanI.pcap zeek/erspanII.pcap
zeek/erspanIII.pcap zeek/tunnels__gre-erspan3-dot1q.pcap zeek/tunnels__gre-pptp.pcap
zeek/tunnels__gre-sample.pcap zeek/tunnels__gre-within-gre.pcap pcapplusplus/Vxlan1.pcap
pcapplusplus/Vxlan2.pcap zeek/tunnels__vxlan.pcap zeek/tunnels__vxlan-triple-v2.pcap
zeek/tunnels__geneve.pcap zeek/tunnels__geneve-ipv6.pcap zeek/tunnels__geneve-many-options.pcap
zeek/tunnels__geneve-tagged-udp-packet.pcap pcapplusplus/gtp-u.pcap
zeek/tunnels__gtp__gtp7_ipv6.pcap zeek/tunnels__gtp__gtp8_teredo.pcap
zeek/tunnels__Teredo.pcap zeek/tunnels__4in4.pcap zeek/tunnels__4in6.pcap zeek/tunnels__6in4.pcap
zeek/tunnels__6in6in6.pcap pcapplusplus/IPv4-encapsulated-IPv6.pcap pcapplusplus/MplsPackets.pcap
zeek/tunnels__ping6-in-ipv4.pcap
""".split()


def following(proto):
    """What each IPv6 header in the layer says that follows it."""
    return [
        x.get("show") for x in proto.iter("field")
        if x.get("name").endswith(".nxt") or x.get("name") == "ah.next_header"
    ]


def layers(packet):
    """Every IP header with what directly follows it."""
    tags, found = [], []
    for proto in packet.findall("proto"):
        name = proto.get("name")
        field = lambda f: next((x.get("show") for x in proto.iter("field") if x.get("name") == f), None)
        if name == "eth":
            tags = []
        elif name in ("vlan", "ieee8021ad"):
            tags.append(field(name + ".id"))
        elif name in ("ip", "ipv6"):
            protocol = field("ip.proto")
            if name == "ipv6":
                protocol = following(proto)[-1]
            found.append([field(name + ".src"), "0", field(name + ".dst"), "0", protocol] + (tags + ["-", "-"])[:2])
        elif name.startswith("ipv6.") and found:
            found[-1][4] = (following(proto) or found[-1][4:5])[-1]
        elif name in ("tcp", "udp", "sctp") and found and found[-1][1] == "0":
            found[-1][1], found[-1][3] = field(name + ".srcport"), field(name + ".dstport")
    return found


print("depth\tcapture\tsource\tsource_port\tdestination\tdestination_port\tprotocol\touter_vlan\tinner_vlan\tpackets")
for depth, names, which in (("outer", OUTER, 0), ("innermost", INNERMOST, -1)):
    for name in names:
        command = ["tshark", "-n", "-r", name, "-T", "pdml"] + [x for p in OFF for x in ("-o", p + ":FALSE")]
        pdml = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        flows = collections.Counter(
            tuple(found[which]) for packet in ET.fromstring(pdml).iter("packet") if (found := layers(packet))
        )
        for flow, packets in sorted(flows.items()):
            print(depth, name, *flow, packets, sep="\t")
